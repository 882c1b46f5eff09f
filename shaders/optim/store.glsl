// <sink> of project/backward.comp that writes the gradients out, for the Python API.
BUFFER_means(readonly)
BUFFER_quats(readonly)
BUFFER_log_scales(readonly)
BUFFER_logit_opacities(readonly)
BUFFER_sh(readonly)
BUFFER_d_means(writeonly)
BUFFER_d_quats(writeonly)
BUFFER_d_log_scales(writeonly)
BUFFER_d_logit_opacities(writeonly)
BUFFER_d_sh(writeonly)

void sink_view(uint g, vec2 d_mean2d, float radius) {}

// Returns dot(sh, d_color), which the view-direction gradient needs.
float sink_sh(uint g, uint k, vec3 d_sh_k, vec3 d_color) {
    uint row = k * counts.capacity + g;
    d_sh[row] = d_sh_k;
    return dot(sh[row], d_color);
}

void sink_geometry(uint g, vec3 d_mean, vec4 d_quat, vec3 d_log_scale, float d_logit) {
    d_means[g] = d_mean;
    d_quats[g] = d_quat;
    d_log_scales[g] = d_log_scale;
    d_logit_opacities[g] = d_logit;
}
