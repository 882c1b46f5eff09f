// <sink> of project/sink.comp that writes the gradients out, for the Python API.
FOURS_d_means(writeonly)
FOURS_d_quats(writeonly)
FOURS_d_log_scales(writeonly)
FOURS_d_logit_opacities(writeonly)
FOURS_d_sh(writeonly)

void sink_sh(uint k, uint i, vec4 d, bvec4 taken) { d_sh_fours[k * (counts.stride / 4u * 3u) + i] = d; }
void sink_means(uint i, vec4 d, bvec4 taken) { d_means_fours[i] = d; }
void sink_quats(uint i, vec4 d, bvec4 taken) { d_quats_fours[i] = d; }
void sink_log_scales(uint i, vec4 d, bvec4 taken) { d_log_scales_fours[i] = d; }
void sink_logit_opacities(uint i, vec4 d, bvec4 taken) { d_logit_opacities_fours[i] = d; }
