// <listing> of project/backward.comp: the visible splats of a workgroup in any order; nothing is
// added up over them.
void list_visible(uint first, uint t) {
    if (t == 0u) found = 0u;
    barrier();
    for (uint g = first + t; g < min(first + GROUP, counts.splats); g += LANES)
        if (seen[g] != 0u) visible[atomicAdd(found, 1u)] = g;
    barrier();
}
void begin_camera() {}
void add_to_camera(vec3 away, vec3 d_mean, vec3 d_geometric, vec4 unit_quat, vec4 d_unit_quat,
                   vec3 d_own) {}
void end_camera() {}
