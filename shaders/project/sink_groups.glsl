// Workgroups of project/sink.comp: x is the geometry, then a plane of SH each.
uvec3 sink_groups() {
    uint planes = frame.sh_rests != 0u ? 1u : min((frame.sh_degree + 1u) * (frame.sh_degree + 1u), SH_PLANES);
    return uvec3(1u + (ALL_PLANES ? SH_PLANES : planes), fold((counts.splats + GROUP - 1u) / GROUP).xy);
}
