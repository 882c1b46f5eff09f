// <given>: splats as they are trained: logarithms of scales, logits of opacities.
VALUE_log_scales(readonly)
VALUE_logit_opacities(readonly)
vec3 scale_of(uint g) { return exp(log_scales(g)); }
float opacity_of(uint g) { return 1.0 / (1.0 + exp(-logit_opacities(g))); }
// d scale / d log scale.
vec3 d_scale_of(vec3 scale) { return scale; }
// d logit / d log(opacity): 1 / (1 - opacity), which near 1 has no digits as a difference.
float per_log_opacity(uint g) { return 1.0 + exp(logit_opacities(g)); }
