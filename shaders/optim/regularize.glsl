// What the loss gains by opacity_reg * mean opacity + scale_reg * mean scale (Kheradmand et al. 2024), of all splats, seen or not.
// The branches keep an infinite scale from turning a weight of 0 into a gradient that is no number.
void regularize(uint g, inout vec3 d_log_scale, inout float d_logit) {
    if (hyper.opacity_reg > 0.0) {
        float e = exp(-abs(logit_opacities[g]));  // o (1 - o), even in the logit
        d_logit += hyper.opacity_reg / float(counts.splats) * e / ((1.0 + e) * (1.0 + e));
    }
    if (hyper.scale_reg > 0.0) d_log_scale += hyper.scale_reg / (3.0 * float(counts.splats)) * exp(log_scales[g]);
}
