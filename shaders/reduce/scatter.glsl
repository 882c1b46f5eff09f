// <reduce>: as hybrid, but a subgroup whose lanes are all awake is summed by recursive halving (Rabenseifner 2004, reduce-scatter): partners
// swap halves of what they hold, so that 12 shuffles sum nine numbers over 32 lanes, and nine sums lie in nine lanes when they are added.
#include "contract/splats.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include <adder>
#include "reduce/quad_sum.glsl"
#include "reduce/subgroup_sum.glsl"

// Fewest contributing fragments worth a subgroup reduction.
layout(constant_id = 10) const uint THRESHOLD = 16u;

// Of partners that differ in `bit`, the one without it takes the first (n + 1) / 2 numbers of both, the other the rest.
void halve(inout float m[GRADIENTS], uint n, uint bit) {
    bool upper = (gl_SubgroupInvocationID & bit) != 0u;
    uint kept = (n + 1u) / 2u;
    for (uint j = 0u; j < kept; ++j) {
        float high = j + kept < n ? m[min(j + kept, GRADIENTS - 1u)] : 0.0;
        m[j] = (upper ? high : m[j]) + subgroupShuffleXor(upper ? m[j] : high, bit);
    }
}

void reduce_scattered(uint splat, bool contributes, uvec4 contributing, float m[GRADIENTS]) {
    halve(m, 9u, 1u);
    halve(m, 5u, 2u);
    halve(m, 3u, 4u);
    if (gl_SubgroupSize > 8u) halve(m, 2u, 8u);
    for (uint bit = 16u; bit < gl_SubgroupSize; bit *= 2u) m[0] += subgroupShuffleXor(m[0], bit);

    // Contributing lanes fetch and add, as many at a time as there are: what helper lanes add is lost.
    uint count = subgroupBallotBitCount(contributing), rank = subgroupBallotExclusiveBitCount(contributing);
    for (uint done = 0u; done < GRADIENTS; done += count) {
        uint i = done + rank, at = min(i, GRADIENTS - 1u), lane = 0u;  // where the halvings left number `at`
        if (at >= 5u) { at -= 5u; lane = 1u; }
        if (at >= 3u) { at -= 3u; lane |= 2u; }
        if (at >= 2u) { at -= 2u; lane |= 4u; }
        if (gl_SubgroupSize > 8u) lane |= at << 3u;
        float sum = subgroupShuffle(m[0], lane);
        if (gl_SubgroupSize == 8u) {
            float second = subgroupShuffle(m[1], lane);
            sum = at == 0u ? sum : second;
        }
        if (contributes && i < GRADIENTS) add_gradient(GRADIENT_STRIDE * splat + i, sum);
    }
}

void reduce_gradients(uint splat, bool contributes, float m[GRADIENTS]) {
    uvec4 contributing = subgroupBallot(contributes);
    if (contributing == uvec4(0u)) return;
    if (!subgroupAllEqual(splat) || subgroupBallotBitCount(contributing) < THRESHOLD)
        reduce_quad(splat, contributes, contributing, m);
    else if (gl_SubgroupSize >= 8u && subgroupBallotBitCount(subgroupBallot(true)) == gl_SubgroupSize)
        reduce_scattered(splat, contributes, contributing, m);
    else
        reduce_subgroup(splat, contributes, contributing, m);
}
