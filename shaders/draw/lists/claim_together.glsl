// <claim>: places for the fragments of a subgroup, by one addition to their number.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_arithmetic : require
uint claim(bool wanted) {
    uvec4 wanting = subgroupBallot(wanted);
    uint number = subgroupBallotBitCount(wanting), first = 0u;
    // No helper lane: its additions are lost.
    if (number > 0u && gl_SubgroupInvocationID == subgroupBallotFindLSB(wanting))
        first = atomicAdd(counts.pairs_wanted, number);
    return subgroupMax(first) + subgroupBallotExclusiveBitCount(wanting);
}
