// One splat as a row over the buffers that hold it: parameters and Adam moments.
layout(constant_id = 0) const uint SH_PLANES = 16u;

#include "trained.glsl"

void copy_parameters(uint from, uint to, uint stride) {
    means[to] = means[from];
    quats[to] = quats[from];
    log_scales[to] = log_scales[from];
    logit_opacities[to] = logit_opacities[from];
    for (uint k = 0u; k < SH_PLANES; ++k) sh[k * stride + to] = sh[k * stride + from];
}

// Each moment is a plane by itself, those of plane k of sh at 2 k and 2 k + 1.
void copy_moments(uint from, uint to, uint stride) {
    for (uint moment = 0u; moment < 2u; ++moment) {
        uint a = moment * stride + from, b = moment * stride + to;
        adam_means[b] = adam_means[a];
        adam_quats[b] = adam_quats[a];
        adam_log_scales[b] = adam_log_scales[a];
        adam_logit_opacities[b] = adam_logit_opacities[a];
    }
    for (uint k = 0u; k < 2u * SH_PLANES; ++k) adam_sh[k * stride + to] = adam_sh[k * stride + from];
}

void zero_moments(uint row, uint stride) {
    for (uint moment = 0u; moment < 2u; ++moment) {
        uint a = moment * stride + row;
        adam_means[a] = MOMENT3(0u);
        adam_quats[a] = MOMENT4(0u);
        adam_log_scales[a] = MOMENT3(0u);
        adam_logit_opacities[a] = MOMENT(0u);
    }
    for (uint k = 0u; k < 2u * SH_PLANES; ++k) adam_sh[k * stride + row] = MOMENT3(0u);
}
