// Rows to fill become copies of what was drawn for them, without momentum: a dead splat's own belongs to where it was.
#include "common.glsl"
#include "contract/refine.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_grow_stats(writeonly)
#include "mcmc/source.glsl"
#include "densify/row.glsl"
#include "densify/stats.glsl"

void main() {
    uint row;
    if (!fills(group_index() * GROUP + gl_LocalInvocationID.x, row)) return;
    copy_values(source(row), row);
    zero_moments(row);
    grow_stats[row] = NO_STATS;
}
