// <directions>: what project/kept_planes.glsl kept of the gradients of the colours by the direction
// of view.
GRADIENT_means(restrict)
GRADIENT_quats(restrict)
GRADIENT_log_scales(restrict)
mat3 kept_direction(uint g) { return mat3(d_means(g), d_log_scales(g), d_quats(g).xyz); }
