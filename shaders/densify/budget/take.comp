// What a draw of scores left in d_splats2d -> score_stats, and d_splats2d clean again for the next
// draw.
#include "common.glsl"
#include "contract/splats.glsl"
#include "contract/refine.glsl"

layout(local_size_x = GROUP) in;
// The draw summed absolute gradients; else weights of pixels.
layout(constant_id = 0) const bool ABSOLUTE = true;
BUFFER_camera(readonly)
BUFFER_counts(readonly)
BUFFER_seen(readonly)
BUFFER_d_splats2d(restrict)
BUFFER_score_stats(restrict)

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats || seen[g] == 0u) return;
    float sums[GRADIENTS];
    for (uint i = 0u; i < GRADIENTS; ++i) {
        sums[i] = d_splats2d[GRADIENT_STRIDE * g + i];
        d_splats2d[GRADIENT_STRIDE * g + i] = 0.0;
    }
    ScoreStat stat = score_stats[g];
    if (ABSOLUTE) {
        stat.grad += length(vec2(sums[1], sums[2]) * 0.5 * vec2(camera.size));
        stat.views += 1.0;
    } else {
        stat.edges += sums[6];
        stat.blended += sums[8];
    }
    score_stats[g] = stat;
}
