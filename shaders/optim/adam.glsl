// <sink> of project/sink.comp that takes an Adam step at once (Kingma & Ba 2015, algorithm 1), so that gradients of the 59 never reach memory.
// SH planes above the degree in use are not dispatched: parameter and moments of who never had a gradient stay as they are.
BUFFER_hyper(readonly)
#include "trained.glsl"
#include "optim/regularize.glsl"

#define ADAM(type, name, moments, row, gradient, rate)                                             \
    {                                                                                              \
        type d_ = gradient;                                                                        \
        type m_ = mix(d_, moments[2u * (row)], hyper.beta1);                                       \
        type v_ = mix(d_ * d_, moments[2u * (row) + 1u], hyper.beta2);                             \
        moments[2u * (row)] = m_;                                                                  \
        moments[2u * (row) + 1u] = v_;                                                             \
        name[row] -= (rate) / frame.bias1 * m_ / (sqrt(v_ / frame.bias2) + hyper.eps);             \
    }

// Three floats of plane k, each `channel` of a row, with their gradients; all are read before any is written.
void sink_sh(uint k, uvec3 row, uvec3 channel, vec3 d_sh_k, bvec3 taken) {
    vec3 value = vec3(0.0), m = vec3(0.0), v = vec3(0.0);
    [[unroll]] for (uint j = 0u; j < 3u; ++j)
        if (taken[j]) {
            value[j] = sh[row[j]][channel[j]];
            m[j] = adam_sh[2u * row[j]][channel[j]];
            v[j] = adam_sh[2u * row[j] + 1u][channel[j]];
        }
    m = mix(d_sh_k, m, hyper.beta1);
    v = mix(d_sh_k * d_sh_k, v, hyper.beta2);
    value -= (k == 0u ? hyper.lr_sh0 : hyper.lr_shN) / frame.bias1 * m / (sqrt(v / frame.bias2) + hyper.eps);
    [[unroll]] for (uint j = 0u; j < 3u; ++j)
        if (taken[j]) {
            sh[row[j]][channel[j]] = value[j];
            adam_sh[2u * row[j]][channel[j]] = m[j];
            adam_sh[2u * row[j] + 1u][channel[j]] = v[j];
        }
}

void sink_geometry(uint g, vec3 d_mean, vec4 d_quat, vec3 d_log_scale, float d_logit) {
    regularize(g, d_log_scale, d_logit);
    ADAM(vec3, means, adam_means, g, d_mean, frame.lr_means)
    ADAM(vec4, quats, adam_quats, g, d_quat, hyper.lr_quats)
    ADAM(vec3, log_scales, adam_log_scales, g, d_log_scale, hyper.lr_scales)
    ADAM(float, logit_opacities, adam_logit_opacities, g, d_logit, hyper.lr_opacities)
}
