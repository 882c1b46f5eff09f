// <sink> of project/sink.comp that takes an Adam step at once (Kingma & Ba 2015, algorithm 1), so that gradients of the 59 never reach memory.
// SH planes above the degree in use are not dispatched: parameter and moments of who never had a gradient stay as they are.
BUFFER_hyper(readonly)
FOURS_means(restrict)
FOURS_quats(restrict)
FOURS_log_scales(restrict)
FOURS_logit_opacities(restrict)
FOURS_sh(restrict)
FOURS_adam_means(restrict)
FOURS_adam_quats(restrict)
FOURS_adam_log_scales(restrict)
FOURS_adam_logit_opacities(restrict)
FOURS_adam_sh(restrict)

// Four floats of a parameter: first moments at `m`, second at `v`. Those not taken stay as they are.
#define ADAM(name, at, m, v, gradient, taken, rate)                                                    \
    {                                                                                                  \
        vec4 p0_ = name##_fours[at], m0_ = adam_##name##_fours[m], v0_ = adam_##name##_fours[v];       \
        vec4 d_ = gradient, m_ = mix(d_, m0_, hyper.beta1), v_ = mix(d_ * d_, v0_, hyper.beta2);       \
        vec4 p_ = p0_ - (rate) / frame.bias1 * m_ / (sqrt(v_ / frame.bias2) + hyper.eps);              \
        name##_fours[at] = mix(p0_, p_, taken);                                                        \
        adam_##name##_fours[m] = mix(m0_, m_, taken);                                                  \
        adam_##name##_fours[v] = mix(v0_, v_, taken);                                                  \
    }

void sink_sh(uint k, uint i, vec4 d, bvec4 taken) {
    uint plane = counts.stride / 4u * 3u;
    ADAM(sh, k * plane + i, 2u * k * plane + i, (2u * k + 1u) * plane + i, d, taken, k == 0u ? hyper.lr_sh0 : hyper.lr_shN)
}

void sink_means(uint i, vec4 d, bvec4 taken) { ADAM(means, i, i, counts.stride / 4u * 3u + i, d, taken, frame.lr_means) }

void sink_quats(uint i, vec4 d, bvec4 taken) { ADAM(quats, i, i, counts.stride + i, d, taken, hyper.lr_quats) }

// The loss gains opacity_reg * mean opacity + scale_reg * mean scale (Kheradmand et al. 2024), over all splats, seen or not.
// The branches keep an infinite scale from turning a weight of 0 into a gradient that is no number.
void sink_log_scales(uint i, vec4 d, bvec4 taken) {
    if (hyper.scale_reg > 0.0) d += hyper.scale_reg / (3.0 * float(counts.splats)) * exp(log_scales_fours[i]);
    ADAM(log_scales, i, i, counts.stride / 4u * 3u + i, d, taken, hyper.lr_scales)
}

void sink_logit_opacities(uint i, vec4 d, bvec4 taken) {
    if (hyper.opacity_reg > 0.0) {
        vec4 e = exp(-abs(logit_opacities_fours[i]));  // o (1 - o), even in the logit
        d += hyper.opacity_reg / float(counts.splats) * e / ((1.0 + e) * (1.0 + e));
    }
    ADAM(logit_opacities, i, i, counts.stride / 4u + i, d, taken, hyper.lr_opacities)
}
