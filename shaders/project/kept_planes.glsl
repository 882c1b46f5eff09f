// <kept>: what the backward projection gets from the forward one: which splats are visible, which of their colours are above 0, and the gradients of the
// colours by the direction of view. Those lie in planes that the backward pass then overwrites with gradients of the geometry.
BUFFER_seen(writeonly)
GRADIENT_means(writeonly)
GRADIENT_quats(writeonly)
GRADIENT_log_scales(writeonly)

void keep_nothing(uint g) { seen[g] = 0u; }

void keep(uint g, vec3 color, mat3 d_direction) {
    seen[g] = 1u + (color.r > 0.0 ? 2u : 0u) + (color.g > 0.0 ? 4u : 0u) + (color.b > 0.0 ? 8u : 0u);
    if (frame.sh_degree == 0u) return;
    d_means(g) = d_direction[0];
    d_log_scales(g) = d_direction[1];
    d_quats(g) = vec4(d_direction[2], 0.0);
}
