// <sink> of project/sink.comp that writes the gradients out, for the Python API.
BUFFER_d_means(writeonly)
BUFFER_d_quats(writeonly)
BUFFER_d_log_scales(writeonly)
BUFFER_d_logit_opacities(writeonly)
BUFFER_d_sh(writeonly)

void sink_sh(uint k, uvec3 row, uvec3 channel, vec3 d_sh_k, bvec3 taken) {
    [[unroll]] for (uint j = 0u; j < 3u; ++j)
        if (taken[j]) d_sh[row[j]][channel[j]] = d_sh_k[j];
}

void sink_geometry(uint g, vec3 d_mean, vec4 d_quat, vec3 d_log_scale, float d_logit) {
    d_means[g] = d_mean;
    d_quats[g] = d_quat;
    d_log_scales[g] = d_log_scale;
    d_logit_opacities[g] = d_logit;
}
