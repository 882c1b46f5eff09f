// <directions>: what project/kept_planes.glsl kept of the gradients of the colours by the direction
// of view.
GRADIENT_means(restrict)
GRADIENT_quats(restrict)
GRADIENT_log_scales(restrict)
GRADIENT_logit_opacities(writeonly)
mat3 kept_direction(uint g) { return mat3(d_means(g), d_log_scales(g), d_quats(g).xyz); }
void put_gradients(uint g, vec3 of_mean, vec4 of_quat, vec3 of_scale, float of_opacity) {
    d_means(g) = of_mean;
    d_quats(g) = of_quat;
    d_log_scales(g) = of_scale;
    d_logit_opacities(g) = of_opacity;
}
