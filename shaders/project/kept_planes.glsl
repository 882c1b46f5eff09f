// <kept>: what the backward projection gets from the forward one: which splats are visible, which
// of their colours are above 0, and the gradients of the colours by the direction of view. Those
// lie in planes that the backward pass then overwrites with gradients of the geometry.
#include "project/seen.glsl"
GRADIENT_means(writeonly)
GRADIENT_quats(writeonly)
GRADIENT_log_scales(writeonly)

void keep(uint g, vec3 color, mat3 d_direction) {
    keep_seen(g, color);
    if (frame.sh_degree == 0u) return;
    d_means(g) = d_direction[0];
    d_log_scales(g) = d_direction[1];
    d_quats(g) = vec4(d_direction[2], 0.0);
}
