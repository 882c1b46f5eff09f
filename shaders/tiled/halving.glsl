// <reduce>: a subgroup, all of one splat, is summed by recursive halving (reduce-scatter): three exchanges leave each lane one of eight sums
// over 8 lanes, so that nine sums cost 14 shuffles of 32 lanes, not 45, and neighbouring lanes add them to neighbouring words.
#include "contract/splats.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_EXT_control_flow_attributes : require

void reduce_gradients(uint splat, bool contributes, float grad[GRADIENTS]) {
    if (!subgroupAny(contributes)) return;
    uint lane = gl_SubgroupInvocationID;
    float ninth = subgroupAdd(grad[8]);
    [[unroll]] for (uint bit = 4u; bit > 0u; bit >>= 1u) {
        bool upper = (lane & bit) != 0u;
        [[unroll]] for (uint i = 0u; i < bit; ++i) {
            float given = subgroupShuffleXor(upper ? grad[i] : grad[i + bit], bit);
            grad[i] = (upper ? grad[i + bit] : grad[i]) + given;
        }
    }
    float sum = grad[0];  // of gradient lane & 7
    for (uint bit = 8u; bit < LANES; bit <<= 1u) sum += subgroupShuffleXor(sum, bit);
    if (lane < min(9u, LANES)) add_gradient(GRADIENT_STRIDE * splat + lane, lane < 8u ? sum : ninth);
    if (LANES == 8u && lane == 0u) add_gradient(GRADIENT_STRIDE * splat + 8u, ninth);
}
