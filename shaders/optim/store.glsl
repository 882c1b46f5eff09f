// <sink> of project/sink.comp that writes the gradients out, for the Python API.
FOURS_d_means(writeonly)
FOURS_d_quats(writeonly)
FOURS_d_log_scales(writeonly)
FOURS_d_logit_opacities(writeonly)
FOURS_d_sh(writeonly)

void sink_sh(uint k, uint i, uint g, uint r) { d_sh_fours[k * (counts.stride / 4u * 3u) + i] = gradients_of_sh(k, g, r); }
void sink_means(uint i, uint g, uint r) { d_means_fours[i] = gradients3(g, r, 0u); }
void sink_quats(uint g) { d_quats_fours[g] = gradients_of_quat(g); }
void sink_log_scales(uint i, uint g, uint r) { d_log_scales_fours[i] = gradients3(g, r, 7u); }
void sink_logit_opacities(uint i, uint g) { d_logit_opacities_fours[i] = gradients_of_logits(g); }
