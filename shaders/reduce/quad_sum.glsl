// Sums a quad's moments and adds them; `contributing` is the subgroup's ballot.
#include "contract/splats.glsl"
#include "reduce/add.glsl"
#include <quads>

void reduce_quad(uint splat, bool contributes, uvec4 contributing, float m[GRADIENTS]) {
    uint lane = gl_SubgroupInvocationID;
    uint lanes = contributing[lane >> 5u] >> (lane & 28u) & 15u;
    for (uint i = 0u; i < GRADIENTS; ++i) m[i] = quad_sum(m[i], lanes);
    // Its first lane.
    if (contributes && (lanes & (1u << (lane & 3u)) - 1u) == 0u) add_gradients(splat, m);
}
