// <reduce>: subgroups that hold one splat are summed whole; the others fall back to an atomic per fragment (DISTWAR's butterfly, SW-B).
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "reduce/subgroup_sum.glsl"

void reduce_gradients(uint splat, bool contributes, float grad[9]) {
    uvec4 contributing = subgroupBallot(contributes);
    if (contributing == uvec4(0u)) return;
    if (subgroupAllEqual(splat)) {
        reduce_subgroup(splat, contributing, grad);
    } else if (contributes) {
        for (uint i = 0u; i < 9u; ++i) add_gradient(9u * splat + i, grad[i]);
    }
}
