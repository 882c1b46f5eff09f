// Compaction in place: as many of the living stand beyond the first L places as there are holes within, and the last of them takes the
// first hole. Statistics age.
#include "common.glsl"
#include "contract/refine.glsl"

layout(local_size_x = GROUP) in;
BUFFER_refine_settings(readonly)
BUFFER_counts(readonly)
BUFFER_holes(readonly)
BUFFER_grow_stats(restrict)
#include "densify/rank.glsl"
#include "densify/planes.glsl"
#include "densify/stats.glsl"

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats || !flagged(g)) return;
    uint living = flagged_of(counts.splats), to = g < living ? g : holes[living - 1u - rank(g)];
    grow_stats[to] = aged(grow_stats[g], refine_settings.stats_kept);
    if (to == g) return;
    copy_values(g, to);
    copy_moments(g, to);
}
