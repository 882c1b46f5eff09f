// <reduce>: a subgroup with enough contributing lanes, all of one splat, is summed whole; else
// atomics a lane (DISTWAR's SW-B, Durvasula et al. 2024).
#include "contract/splats.glsl"
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "reduce/subgroup_sum.glsl"

// Fewest contributing lanes worth a reduction; 8 of 32 is the published value.
layout(constant_id = 10) const uint THRESHOLD = 8u;

void reduce_gradients(uint splat, bool contributes, float grad[GRADIENTS]) {
    uvec4 contributing = subgroupBallot(contributes);
    if (contributing == uvec4(0u)) return;
    if (subgroupBallotBitCount(contributing) >= THRESHOLD) {
        reduce_subgroup(splat, contributes, contributing, grad);
    } else if (contributes) {
        add_gradients(splat, grad);
    }
}
