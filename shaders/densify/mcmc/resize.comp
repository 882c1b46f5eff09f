// The number of splats after growth, and the work sizes that follow from it.
#include "common.glsl"
#include "contract/sort.glsl"

layout(local_size_x = 1) in;
BUFFER_counts(restrict)
BUFFER_indirect(writeonly)
#include "densify/mcmc/target.glsl"

const uint BLOCK = GROUP * SORT_ROWS;

void main() {
    uint splats = target();
    counts.splats = splats;
    indirect.splat_groups = fold((splats + GROUP - 1u) / GROUP);
    indirect.splat_blocks = fold((splats + BLOCK - 1u) / BLOCK);
}
