// <reduce>: the four fragments of a 2x2 quad, always of one splat, are summed; one lane adds the sum.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#include <quads>
#include "reduce/quad_sum.glsl"

void reduce_gradients(uint splat, bool contributes, float grad[9]) {
    reduce_quad(splat, contributes, subgroupBallot(contributes), grad);
}
