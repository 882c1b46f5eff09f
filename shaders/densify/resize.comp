// The number of splats after growth, or after pruning, and the work sizes that follow from it.
#include "common.glsl"
#include "contract/sort.glsl"

layout(local_size_x = 1) in;
layout(constant_id = 0) const bool GROWN = true;
BUFFER_counts(restrict)
BUFFER_indirect(writeonly)
#include "densify/rank.glsl"

const uint BLOCK = GROUP * SORT_ROWS;

void main() {
    uint splats = flagged_of(counts.splats);
    if (GROWN) {
        counts.wanted = counts.splats + splats;
        splats = min(counts.wanted, counts.capacity);
    }
    counts.splats = splats;
    indirect.splat_groups = fold((splats + GROUP - 1u) / GROUP);
    indirect.splat_blocks = fold((splats + BLOCK - 1u) / BLOCK);
}
