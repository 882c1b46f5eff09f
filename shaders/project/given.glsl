// What a splat has in the planes of scales and opacities: as it is trained, logarithms of scales
// and logits of opacities; else scales and opacities themselves, of which those above 1 count as 1.
layout(constant_id = 23) const bool LOGS = true;
VALUE_log_scales(readonly)
VALUE_logit_opacities(readonly)

vec3 scale_of(uint g) { return LOGS ? exp(log_scales(g)) : log_scales(g); }
float opacity_of(uint g) {
    float given = logit_opacities(g);
    if (LOGS) return 1.0 / (1.0 + exp(-given));
    return given > 1.0 ? 1.0 : given;
}
// d scale / d what is stored.
vec3 d_scale_of(vec3 scale) { return LOGS ? scale : vec3(1.0); }
// d what is stored / d log(opacity). Of logits that is 1 / (1 - opacity), which near 1 has no
// digits as a difference. Its reciprocal where opacities are stored: d opacity / d log(opacity).
float per_log_opacity(uint g) { return LOGS ? 1.0 + exp(logit_opacities(g)) : opacity_of(g); }
