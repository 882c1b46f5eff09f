// <moved> of optim/begin_step.comp: the planes of splats that move in this step, and how many;
// sort/sizes.comp says how much work each is. Every thread must call it, with its plane.
BUFFER_indirect(writeonly)
BUFFER_moved_planes(writeonly)

shared uint moved_flags[gl_WorkGroupSize.x];

void list_moved(bool moves) {
    uint t = gl_LocalInvocationID.x, place = 0u;
    moved_flags[t] = uint(moves);
    barrier();
    for (uint i = 0u; i < t; ++i) place += moved_flags[i];
    if (moves) moved_planes.at[place] = t;
    if (t < gl_WorkGroupSize.x - 1u) return;
    place += uint(moves);
    moved_planes.count = place;
    indirect.planes.x = place;
}
