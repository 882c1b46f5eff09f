// Work sizes of a frame from the number of splats. Those of the visible ones start at nothing: with
// no splats the sort's own passes do not run.
#include "common.glsl"
#include "contract/sort.glsl"

layout(local_size_x = 1) in;
BUFFER_counts(restrict)
BUFFER_indirect(writeonly)

const uint BLOCK = GROUP * SORT_ROWS;

void main() {
    uvec3 groups = fold((counts.splats + GROUP - 1u) / GROUP);
    indirect.splat_groups = groups;
    indirect.planes.y = groups.x;  // x is written by optim/begin_step.comp, at the same time
    indirect.planes.z = groups.y;
    indirect.splat_blocks = fold((counts.splats + BLOCK - 1u) / BLOCK);
    indirect.visible_blocks = indirect.visible_groups = fold(0u);
    indirect.draw = uvec4(0u, 1u, 0u, 0u);
    indirect.pair_blocks = fold(0u);
    indirect.buckets = fold(0u);
    counts.visible = counts.pairs = counts.pairs_wanted = counts.pairs_wanted_high = 0u;
}
