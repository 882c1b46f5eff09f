// <reduce>: the lowest of enough contributing lanes, all of one splat, adds the others up one by
// one; else atomics a lane (DISTWAR's SW-S, Durvasula et al. 2024).
#include "contract/splats.glsl"
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "reduce/add.glsl"

layout(constant_id = 10) const uint THRESHOLD = 8u;  // fewest contributing lanes worth it

void reduce_gradients(uint splat, bool contributes, float grad[GRADIENTS]) {
    uvec4 contributing = subgroupBallot(contributes);
    if (contributing == uvec4(0u)) return;
    if (subgroupBallotBitCount(contributing) >= THRESHOLD) {
        uint leader = subgroupBallotFindLSB(contributing);
        for (uint w = 0u; w < 4u; ++w) {
            uint others = contributing[w];
            if (w == leader / 32u) others &= others - 1u;
            for (; others != 0u; others &= others - 1u)
                for (uint i = 0u; i < GRADIENTS; ++i) {
                    float other = subgroupShuffle(grad[i], 32u * w + uint(findLSB(others)));
                    if (gl_SubgroupInvocationID == leader) grad[i] += other;
                }
        }
        contributes = gl_SubgroupInvocationID == leader;
    }
    if (contributes) add_gradients(splat, grad);
}
