// <reduce>: splat by splat where a subgroup holds several (DISTWAR's balancing): a splat with enough contributing lanes is summed over
// them, the others quad by quad.
#include "contract/splats.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include <adder>
#include "reduce/quad_sum.glsl"
#include "reduce/subgroup_sum.glsl"

// Fewest contributing lanes of a splat worth a sum over the subgroup.
layout(constant_id = 10) const uint THRESHOLD = 16u;
const uint NONE = 0xFFFFFFFFu;

void reduce_gradients(uint splat, bool contributes, float m[GRADIENTS]) {
    bool few = false;
    for (bool open = contributes;;) {
        // The smallest of the open splats belongs to an awake lane, whichever are: every round settles one, so the loop ends.
        uint next = subgroupMin(open ? splat : NONE);
        if (next == NONE) break;
        bool mine = open && splat == next;
        uvec4 lanes = subgroupBallot(mine);
        if (subgroupBallotBitCount(lanes) >= THRESHOLD) {
            float its[GRADIENTS];
            for (uint i = 0u; i < GRADIENTS; ++i) its[i] = mine ? m[i] : 0.0;
            reduce_subgroup(splat, mine, lanes, its);
        } else {
            few = few || mine;
        }
        open = open && !mine;
    }
    uvec4 rest = subgroupBallot(few);
    if (rest != uvec4(0u)) reduce_quad(splat, few, rest, m);
}
