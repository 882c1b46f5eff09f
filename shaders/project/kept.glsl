// <kept>: what the backward projection gets from the forward one: who is visible, whose colour was not cut off, and the gradient of the colour by the direction of view.
BUFFER_seen(writeonly)
BUFFER_d_geometry(writeonly)

void keep_nothing(uint g) { seen[g] = 0u; }

void keep(uint g, vec3 color, mat3 d_direction) {
    seen[g] = 1u + (color.r > 0.0 ? 2u : 0u) + (color.g > 0.0 ? 4u : 0u) + (color.b > 0.0 ? 8u : 0u);
    if (frame.sh_degree > 0u)
        for (uint i = 0u; i < 9u; ++i) d_geometry[i * counts.stride + g] = d_direction[i / 3u][i % 3u];
}
