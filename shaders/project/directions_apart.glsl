// <directions>: what project/kept_apart.glsl kept of the gradients of the colours by the direction
// of view.
layout(constant_id = 30) const bool ADDS = false;  // to those of other views
GRADIENT_means(restrict)
GRADIENT_quats(restrict)
GRADIENT_log_scales(restrict)
GRADIENT_logit_opacities(restrict)
BUFFER_d_directions(readonly)
mat3 kept_direction(uint g) {
    return mat3(d_directions[3u * g], d_directions[3u * g + 1u], d_directions[3u * g + 2u]);
}
void put_gradients(uint g, vec3 of_mean, vec4 of_quat, vec3 of_scale, float of_opacity) {
    if (ADDS) {
        of_mean += d_means(g);
        of_quat += d_quats(g);
        of_scale += d_log_scales(g);
        of_opacity += d_logit_opacities(g);
    }
    d_means(g) = of_mean;
    d_quats(g) = of_quat;
    d_log_scales(g) = of_scale;
    d_logit_opacities(g) = of_opacity;
}
