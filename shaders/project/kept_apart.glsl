// <kept>: as kept_planes.glsl, but for the gradients of the colours by the direction of view, which
// have a buffer of their own: where gradients go may differ by backward pass.
#include "project/seen.glsl"
BUFFER_d_directions(writeonly)

void keep(uint g, vec3 color, mat3 d_direction) {
    keep_seen(g, color);
    if (frame.sh_degree == 0u) return;
    for (uint i = 0u; i < 3u; ++i) d_directions[3u * g + i] = d_direction[i];
}
