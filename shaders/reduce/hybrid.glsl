// <reduce>: subgroups that hold one splat and enough contributing fragments are summed whole, the
// others quad by quad (Yuan & He 2025).
#include "contract/splats.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "reduce/quad_sum.glsl"
#include "reduce/subgroup_sum.glsl"

// Fewest contributing fragments worth a subgroup reduction; 16 is the published value for 32 lanes.
layout(constant_id = 10) const uint THRESHOLD = 16u;

void reduce_gradients(uint splat, bool contributes, float m[GRADIENTS]) {
    uvec4 contributing = subgroupBallot(contributes);
    if (contributing == uvec4(0u)) return;
    if (subgroupAllEqual(splat) && subgroupBallotBitCount(contributing) >= THRESHOLD)
        reduce_subgroup(splat, contributes, contributing, m);
    else
        reduce_quad(splat, contributes, contributing, m);
}
