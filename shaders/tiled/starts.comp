// Where every tile's pairs start: each pair that differs from the one before marks its tile, and the empty ones between.
#include "common.glsl"
#include "contract/tiles.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_pair_tiles(readonly)
BUFFER_tile_starts(writeonly)

void main() {
    for (uint i = group_index() * GROUP * SORT_ROWS + gl_LocalInvocationID.x, row = 0u; row < SORT_ROWS && i <= counts.pairs; ++row, i += GROUP) {
        uint from = i > 0u ? pair_tiles[i - 1u] + 1u : 0u, to = i < counts.pairs ? pair_tiles[i] : TILES;
        for (uint tile = from; tile <= to; ++tile) tile_starts[tile] = i;
    }
}
