// Compaction in place: as many of the living stand beyond the first L places as there are holes
// within, and the last of them takes the first hole. Statistics age.
#include "common.glsl"
#include "contract/refine.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_holes(readonly)
#include "densify/rank.glsl"
#include "densify/planes.glsl"
#include <statistics>

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats || !flagged(g)) return;
    uint living = flagged_of(counts.splats), to = g < living ? g : holes[living - 1u - rank(g)];
    move_statistics(g, to);
    if (to == g) return;
    copy_values(g, to);
    copy_moments(g, to);
}
