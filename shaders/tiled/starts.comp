// Where every tile's pairs start: each pair that differs from the one before marks its tile, and the empty ones between.
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "contract/tiles.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_pair_tiles(readonly)
BUFFER_tile_starts(writeonly)

void main() {
    uint first = group_index() * GROUP * SORT_ROWS + gl_LocalInvocationID.x, pairs = counts.pairs, from[SORT_ROWS], to[SORT_ROWS];
    [[unroll]] for (uint row = 0u; row < SORT_ROWS; ++row) {  // all are asked for before one is waited for
        uint i = first + row * GROUP;
        from[row] = i > 0u && i <= pairs ? pair_tiles[i - 1u] + 1u : 0u;
        to[row] = i < pairs ? pair_tiles[i] : TILES;
    }
    [[unroll]] for (uint row = 0u; row < SORT_ROWS; ++row) {
        uint i = first + row * GROUP;
        for (uint tile = from[row]; i <= pairs && tile <= to[row]; ++tile) tile_starts[tile] = i;
    }
}
