// Sums a whole subgroup's moments and adds them to a splat's; `contributing`: the ballot of lanes
// with moments of it, the others hold zeros.
#include "contract/splats.glsl"
#include "reduce/add.glsl"
void reduce_subgroup(uint splat, bool contributes, uvec4 contributing, float m[GRADIENTS]) {
    for (uint i = 0u; i < GRADIENTS; ++i) m[i] = subgroupAdd(m[i]);
    // Its first lane.
    if (contributes && subgroupBallotExclusiveBitCount(contributing) == 0u) add_gradients(splat, m);
}
