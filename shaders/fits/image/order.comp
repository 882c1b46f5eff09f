// Once for a number of blobs: all are drawn, in the order of memory. Those that a frame culls stay,
// beyond every tile.
#include "common.glsl"
#include "contract/sort.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(restrict)
BUFFER_indirect(writeonly)
BUFFER_order(writeonly)
#include "sort/command.glsl"

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g < counts.splats) order[g] = g;
    if (g == 0u) {
        counts.visible = counts.splats;
        indirect.visible_groups = fold((counts.splats + GROUP - 1u) / GROUP);
        indirect.draw = draw_command(counts.splats);
    }
}
