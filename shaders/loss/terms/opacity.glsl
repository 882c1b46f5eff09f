// Opacity, of logits (Kheradmand et al. 2024).
vec4 opacity_of(vec4 logit) { return 1.0 / (1.0 + exp(-logit)); }
vec4 d_opacity_of(vec4 logit) {  // o (1 - o), even in the logit
    vec4 e = exp(-abs(logit));
    return e / ((1.0 + e) * (1.0 + e));
}
