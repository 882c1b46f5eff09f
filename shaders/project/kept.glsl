// <kept>: what the backward projection gets from the forward one: who is visible, and the gradient of the colour by the direction of view.
BUFFER_seen(writeonly)
BUFFER_d_geometry(writeonly)

void keep_nothing(uint g) { seen[g] = 0u; }

void keep(uint g, mat3 d_direction) {
    seen[g] = 1u;
    if (frame.sh_degree > 0u)
        for (uint i = 0u; i < 9u; ++i) d_geometry[GEOMETRY * g + i] = d_direction[i / 3u][i % 3u];
}
