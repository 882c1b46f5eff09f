// Scale, of logarithms (Kheradmand et al. 2024).
vec4 scale_of(vec4 log_scale) { return exp(log_scale); }
vec4 d_scale_of(vec4 log_scale) { return exp(log_scale); }
