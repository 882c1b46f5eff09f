// Before fragments are listed: empty lists.
#include "common.glsl"
#include "contract/fragments.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
BUFFER_counts(restrict)
BUFFER_fragment_lists(writeonly)
#include "samples/block.glsl"

void main() {
    uvec2 block = gl_GlobalInvocationID.xy;
    if (block.x >= BLOCKS_X || block.y >= BLOCKS_Y) return;
    if (block == uvec2(0u)) {
        counts.pairs_wanted = 0u;
        counts.pairs_wanted_high = 0u;
    }
    fragment_lists[place_of(block, 0u)] = FragmentList(NO_FRAGMENT, 1.0);
}
