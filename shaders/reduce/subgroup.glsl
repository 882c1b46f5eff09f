// <reduce>: subgroups that hold one splat are summed whole; the others fall back to an atomic per
// fragment (DISTWAR's butterfly, SW-B).
#include "contract/splats.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "reduce/subgroup_sum.glsl"

void reduce_gradients(uint splat, bool contributes, float m[GRADIENTS]) {
    uvec4 contributing = subgroupBallot(contributes);
    if (contributing == uvec4(0u)) return;
    if (subgroupAllEqual(splat))
        reduce_subgroup(splat, contributes, contributing, m);
    else if (contributes)
        add_gradients(splat, m);
}
