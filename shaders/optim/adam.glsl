// <sink> of project/backward.comp that takes an Adam step at once (Kingma & Ba 2015, algorithm 1), so that gradients never reach memory,
// and gathers the densification statistics (Kerbl et al. 2023, section 5.2; |d_mean2d| in NDC units as published).
BUFFER_hyper(readonly)
#include "trained.glsl"
BUFFER_grow_stats(restrict)
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

void sink_view(uint g, vec2 d_mean2d, float radius) {
    GrowStat stat = grow_stats[g];
    stat.grad += length(d_mean2d * 0.5 * vec2(camera.size));
    stat.views += 1.0;
    stat.radius = max(stat.radius, radius);
    grow_stats[g] = stat;
}

// Returns dot(sh, d_color) before the step, which the view-direction gradient needs.
float sink_sh(uint g, uint k, vec3 d_sh_k, vec3 d_color) {
    uint row = k * counts.capacity + g;
    float before = dot(sh[row], d_color);
    ADAM(vec3, sh, adam_sh, row, d_sh_k, k == 0u ? hyper.lr_sh0 : hyper.lr_shN)
    return before;
}

void sink_geometry(uint g, vec3 d_mean, vec4 d_quat, vec3 d_log_scale, float d_logit) {
    regularize(g, d_log_scale, d_logit);
    ADAM(vec3, means, adam_means, g, d_mean, frame.lr_means)
    ADAM(vec4, quats, adam_quats, g, d_quat, hyper.lr_quats)
    ADAM(vec3, log_scales, adam_log_scales, g, d_log_scale, hyper.lr_scales)
    ADAM(float, logit_opacities, adam_logit_opacities, g, d_logit, hyper.lr_opacities)
}
