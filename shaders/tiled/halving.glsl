// <reduce>: a subgroup, all of one splat, is summed by recursive halving (reduce-scatter): three
// exchanges leave each lane one of eight sums over 8 lanes, and the ninth sum joins them in the
// fourth, so that nine sums cost 12 shuffles of 32 lanes, not 45, and neighbouring lanes add them
// to neighbouring words. Of 4 lanes each is left with two sums. Written out, for what loops index
// may end up in memory.
#include "contract/splats.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require

void reduce_gradients(uint splat, bool contributes, float grad[GRADIENTS]) {
    if (!subgroupAny(contributes)) return;
    uint lane = gl_SubgroupInvocationID;
    vec4 low = vec4(grad[0], grad[1], grad[2], grad[3]),
         high = vec4(grad[4], grad[5], grad[6], grad[7]);
    if (LANES == 4u) {
        bool second = (lane & 2u) != 0u, odd = (lane & 1u) != 0u;
        vec4 four = (second ? high : low) + subgroupShuffleXor(second ? low : high, 2u);
        vec2 two = (odd ? four.zw : four.xy) + subgroupShuffleXor(odd ? four.xy : four.zw, 1u);
        float last = grad[8] + subgroupShuffleXor(grad[8], 2u);
        last += subgroupShuffleXor(last, 1u);
        uint at = GRADIENT_STRIDE * splat + 2u * lane;
        add_gradient(at, two.x);
        add_gradient(at + 1u, two.y);
        if (lane == 0u) add_gradient(GRADIENT_STRIDE * splat + 8u, last);
        return;
    }
    bool upper = (lane & 4u) != 0u;
    vec4 four = (upper ? high : low) + subgroupShuffleXor(upper ? low : high, 4u);
    float ninth = grad[8] + subgroupShuffleXor(grad[8], 4u);
    upper = (lane & 2u) != 0u;
    vec2 two = (upper ? four.zw : four.xy) + subgroupShuffleXor(upper ? four.xy : four.zw, 2u);
    ninth += subgroupShuffleXor(ninth, 2u);
    upper = (lane & 1u) != 0u;
    // Gradient lane & 7.
    float sum = (upper ? two.y : two.x) + subgroupShuffleXor(upper ? two.x : two.y, 1u);
    ninth += subgroupShuffleXor(ninth, 1u);
    if (LANES == 8u) {
        add_gradient(GRADIENT_STRIDE * splat + lane, sum);
        if (lane == 0u) add_gradient(GRADIENT_STRIDE * splat + 8u, ninth);
        return;
    }
    upper = (lane & 8u) != 0u;
    // Lanes with bit 3 have the ninth.
    sum = (upper ? ninth : sum) + subgroupShuffleXor(upper ? sum : ninth, 8u);
    for (uint bit = 16u; bit < LANES; bit <<= 1u) sum += subgroupShuffleXor(sum, bit);
    if (lane < 9u) add_gradient(GRADIENT_STRIDE * splat + lane, sum);
}
