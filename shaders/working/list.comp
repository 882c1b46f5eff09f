// The splats of a model that a view may show, in ascending order, as far as they fit.
#include "working/block.glsl"

BUFFER_working(writeonly)

void main() {
    uint block = group_index();
    if (!open_block(block)) return;
    for (uint place = gl_LocalInvocationID.x; place < BLOCK; place += GROUP) {
        if (!is_shown(place)) continue;
        uint rank = rank_of(place);
        if (rank < counts.capacity) working[rank] = block * BLOCK + place;
    }
}
