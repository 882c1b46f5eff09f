// <sink> of project/sink.comp that takes an Adam step at once (Kingma & Ba 2015, algorithm 1), so that gradients of the 59 never reach memory.
// SH planes above the degree in use are not dispatched: parameter and moments of who never had a gradient stay as they are.
// The step is taken in float32 whatever the moments are stored as: what is rounded there is only what the next step finds.
#include "random.glsl"
#include <moments>
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

// Four floats of a parameter: first moments at `m`, second at `v`. Those not taken stay as they are. `more`: what else the loss adds to d_, given p0_.
// key: place within the plane and which plane, for the noise of rounding. They know no stride: a resumed run may have another capacity.
#define ADAM(name, at, m, v, key, gradient, more, taken, rate)                                                   \
    {                                                                                                            \
        vec4 p0_ = name##_fours[at], m0_ = loaded(adam_##name##_fours[m]), v0_ = loaded(adam_##name##_fours[v]); \
        vec4 d_ = gradient;                                                                                      \
        bvec4 taken_ = taken;                                                                                    \
        more                                                                                                     \
        vec4 m_ = mix(d_, m0_, hyper.beta1), v_ = mix(d_ * d_, v0_, hyper.beta2);                                \
        vec4 p_ = p0_ - (rate) / frame.bias1 * m_ / (sqrt(v_ / frame.bias2) + hyper.eps);                        \
        uvec4 noise_ = rounding_noise(uvec4(hyper.seed, frame.step, (key).x, DRAW_ROUNDING + (key).y));          \
        name##_fours[at] = mix(p0_, p_, taken_);                                                                 \
        adam_##name##_fours[m] = stored(mix(m0_, m_, taken_), noise_.xy);                                        \
        adam_##name##_fours[v] = stored(mix(v0_, v_, taken_), noise_.zw);                                        \
    }

uint plane3() { return counts.stride / 4u * 3u; }  // fours of a plane of vec3

void sink_sh(uint k, uint i, uint g, uint r) {
    uint m = 2u * k * plane3() + i;
    ADAM(sh, k * plane3() + i, m, m + plane3(), uvec2(i, 4u + k), gradients_of_sh(k, g, r), , taken3(g, r), k == 0u ? hyper.lr_sh0 : hyper.lr_shN)
}

void sink_means(uint i, uint g, uint r) { ADAM(means, i, i, plane3() + i, uvec2(i, 0u), gradients3(g, r, 0u), , taken3(g, r), frame.lr_means) }

void sink_quats(uint g) { ADAM(quats, g, g, counts.stride + g, uvec2(g, 1u), gradients_of_quat(g), , bvec4(taken(g)), hyper.lr_quats) }

// The loss gains opacity_reg * mean opacity + scale_reg * mean scale (Kheradmand et al. 2024), over all splats, seen or not.
// The branches keep an infinite scale from turning a weight of 0 into a gradient that is no number.
void sink_log_scales(uint i, uint g, uint r) {
    ADAM(log_scales, i, i, plane3() + i, uvec2(i, 2u), gradients3(g, r, 7u),
         if (hyper.scale_reg > 0.0) d_ += hyper.scale_reg / (3.0 * float(counts.splats)) * exp(p0_);, taken3(g, r), hyper.lr_scales)
}

vec4 slope(vec4 logit) {  // o (1 - o), even in the logit
    vec4 e = exp(-abs(logit));
    return e / ((1.0 + e) * (1.0 + e));
}
void sink_logit_opacities(uint i, uint g) {
    ADAM(logit_opacities, i, i, counts.stride / 4u + i, uvec2(i, 3u), gradients_of_logits(g),
         if (hyper.opacity_reg > 0.0) d_ += hyper.opacity_reg / float(counts.splats) * slope(p0_);, taken4(g), hyper.lr_opacities)
}
