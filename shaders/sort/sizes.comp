// Work sizes of a frame from the number of splats; the sort adds those of the visible ones.
#include "common.glsl"

layout(local_size_x = 1) in;
BUFFER_counts(restrict)
BUFFER_indirect(writeonly)

void main() {
    indirect.splat_groups = fold((counts.splats + GROUP - 1u) / GROUP);
    uint block = GROUP * SORT_ROWS;
    indirect.splat_blocks = fold((counts.splats + block - 1u) / block);
    counts.visible = 0u;
}
