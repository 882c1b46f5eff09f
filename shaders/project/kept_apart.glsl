// <kept>: as kept_planes.glsl, but for the gradients of the colours by the direction of view, which have a buffer of their own: where gradients go may differ
// by backward pass.
BUFFER_seen(writeonly)
BUFFER_d_directions(writeonly)

void keep_nothing(uint g) { seen[g] = 0u; }

void keep(uint g, vec3 color, mat3 d_direction) {
    seen[g] = 1u + (color.r > 0.0 ? 2u : 0u) + (color.g > 0.0 ? 4u : 0u) + (color.b > 0.0 ? 8u : 0u);
    if (frame.sh_degree == 0u) return;
    for (uint i = 0u; i < 3u; ++i) d_directions[3u * g + i] = d_direction[i];
}
