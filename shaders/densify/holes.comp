// The dead places among the first L, where L is the number of the living: those that compaction
// fills.
#include "common.glsl"
#include "contract/refine.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_holes(writeonly)
#include "densify/rank.glsl"

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g < flagged_of(counts.splats) && !flagged(g)) holes[g - rank(g)] = g;
}
