// <given>: splats whose planes of log_scales and logit_opacities hold scales and opacities themselves. Opacities above 1 count as 1.
VALUE_log_scales(readonly)
VALUE_logit_opacities(readonly)
vec3 scale_of(uint g) { return log_scales(g); }
float opacity_of(uint g) {
    float opacity = logit_opacities(g);
    return opacity > 1.0 ? 1.0 : opacity;
}
// d scale / d what is stored.
vec3 d_scale_of(vec3 scale) { return vec3(1.0); }
// d opacity / d log(opacity).
float per_log_opacity(uint g) { return opacity_of(g); }
