// Compaction in place: as many of the living stand beyond the first L rows as there are holes within, and the last of them takes the
// first hole. Every row's statistics start anew.
#include "common.glsl"
#include "contract/refine.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_holes(readonly)
BUFFER_grow_stats(writeonly)
#include "densify/rank.glsl"
#include "densify/row.glsl"

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats) return;
    grow_stats[g] = GrowStat(0.0, 0.0, 0.0);
    uint living = flagged_of(counts.splats);
    if (g < living || !flagged(g)) return;
    uint hole = holes[living - 1u - rank(g)];
    copy_values(g, hole);
    copy_moments(g, hole);
}
