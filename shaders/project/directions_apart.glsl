// <directions>: what project/kept_apart.glsl kept of the gradients of the colours by the direction
// of view.
GRADIENT_means(writeonly)
GRADIENT_quats(writeonly)
GRADIENT_log_scales(writeonly)
BUFFER_d_directions(readonly)
mat3 kept_direction(uint g) {
    return mat3(d_directions[3u * g], d_directions[3u * g + 1u], d_directions[3u * g + 2u]);
}
