// Sums a whole subgroup's gradients, which must all be of one splat; the lowest contributing lane adds them.
void reduce_subgroup(uint splat, uvec4 contributing, float grad[9]) {
    for (uint i = 0u; i < 9u; ++i) grad[i] = subgroupAdd(grad[i]);
    if (gl_SubgroupInvocationID == subgroupBallotFindLSB(contributing))
        for (uint i = 0u; i < 9u; ++i) add_gradient(9u * splat + i, grad[i]);
}
