// <reduce>: the four fragments of a 2x2 quad, always of one splat, are summed.
#include "contract/splats.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "reduce/quad_sum.glsl"

void reduce_gradients(uint splat, bool contributes, float m[GRADIENTS]) {
    reduce_quad(splat, contributes, subgroupBallot(contributes), m);
}
