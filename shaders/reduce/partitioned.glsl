// <reduce>: splat by splat where a subgroup holds several, all at once (VK_NV_shader_subgroup_partitioned): a splat with enough contributing
// lanes is summed over them, the others quad by quad.
#include "contract/splats.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_NV_shader_subgroup_partitioned : require
#include <adder>
#include "reduce/quad_sum.glsl"

// Fewest contributing lanes of a splat worth a sum over the subgroup.
layout(constant_id = 10) const uint THRESHOLD = 16u;

void reduce_gradients(uint splat, bool contributes, float m[GRADIENTS]) {
    uvec4 same = subgroupPartitionNV(splat), contributing = subgroupBallot(contributes);
    uvec4 lanes = same & contributing;
    bool many = subgroupBallotBitCount(lanes) >= THRESHOLD;
    if (subgroupAny(many)) {
        float sum[GRADIENTS];
        for (uint i = 0u; i < GRADIENTS; ++i) sum[i] = subgroupPartitionedAddNV(m[i], same);
        if (many && contributes) add_sum(splat, subgroupBallotExclusiveBitCount(lanes), subgroupBallotBitCount(lanes), sum);
    }
    uvec4 rest = subgroupBallot(contributes && !many);
    if (rest != uvec4(0u)) reduce_quad(splat, contributes && !many, rest, m);
}
