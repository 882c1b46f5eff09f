// <rank>: a segment is a subgroup. The lanes with the same digit are found by a ballot for each of
// its bits.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
layout(constant_id = 13) const uint SEGMENT = 32u;  // lanes of a subgroup
// Keys of a segment by digit, then where the next of them goes.
shared uint places[GROUP / SEGMENT << BITS];

uint thread() { return gl_SubgroupID * SEGMENT + gl_SubgroupInvocationID; }

void begin_ranks() {
    for (uint i = gl_LocalInvocationID.x; i < GROUP / SEGMENT << BITS; i += GROUP) places[i] = 0u;
    barrier();
}

uint in_segment(uint segment, uint digit, bool here) {
    uvec4 alike = subgroupBallot(here);
    for (uint bit = 0u; bit < BITS; ++bit) {
        bool one = (digit >> bit & 1u) != 0u;
        uvec4 ones = subgroupBallot(one);
        alike &= one ? ones : ~ones;
    }
    uint i = segment << BITS | digit, before = subgroupBallotExclusiveBitCount(alike),
         earlier = places[i];
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    if (here && before == 0u) places[i] = earlier + subgroupBallotBitCount(alike);
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    return earlier + before;
}
