// <reduce>: four lanes, all of one splat, are summed by recursive halving, see tiled/halving.glsl:
// six swaps leave each lane two of eight sums, and two more the ninth.
#include "contract/splats.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_quad : require

void reduce_gradients(uint splat, bool contributes, float m[GRADIENTS]) {
    uint lane = gl_SubgroupInvocationID & 3u, any_does = contributes ? 1u : 0u;
    any_does |= subgroupQuadSwapHorizontal(any_does);
    any_does |= subgroupQuadSwapVertical(any_does);
    if (any_does == 0u) return;
    bool lower = (lane & 2u) != 0u, right = (lane & 1u) != 0u;
    vec4 low = vec4(m[0], m[1], m[2], m[3]), high = vec4(m[4], m[5], m[6], m[7]),
         four = (lower ? high : low) + subgroupQuadSwapVertical(lower ? low : high);
    vec2 two = (right ? four.zw : four.xy) +
               subgroupQuadSwapHorizontal(right ? four.xy : four.zw);
    float last = m[8] + subgroupQuadSwapVertical(m[8]);
    last += subgroupQuadSwapHorizontal(last);
    uint at = GRADIENT_STRIDE * splat + 2u * lane;
    add_gradient(at, two.x);
    add_gradient(at + 1u, two.y);
    if (lane == 0u) add_gradient(GRADIENT_STRIDE * splat + 8u, last);
}
