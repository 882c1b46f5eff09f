// Whether every number of a splat is finite.
layout(constant_id = 0) const uint SH_PLANES = 16u;
BUFFER_means(readonly)
BUFFER_quats(readonly)
BUFFER_log_scales(readonly)
BUFFER_logit_opacities(readonly)
BUFFER_sh(readonly)

bool whole(uint g) {
    bool ok = finite(vec4(means[g], logit_opacities[g])) && finite(quats[g]) && finite(vec4(log_scales[g], 0.0));
    for (uint k = 0u; k < SH_PLANES; ++k) ok = ok && finite(vec4(sh[k * counts.stride + g], 0.0));
    return ok;
}
