// The pairs of tile and splat, splat by splat in depth order, so that a stable sort by tile alone leaves every tile's splats in depth order.
// A thread finds the splat of its pair by two binary searches: however many pairs one splat has, threads do alike.
#include "common.glsl"
#include "contract/tiles.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_tile_splats(readonly)
BUFFER_tile_reaches(readonly)
BUFFER_pair_sums(readonly)
BUFFER_pair_tiles(writeonly)
BUFFER_pair_splats(writeonly)

const uint BLOCK = GROUP * SORT_ROWS;

void main() {
    uint blocks = (counts.visible + BLOCK - 1u) / BLOCK;
    for (uint row = 0u; row < SORT_ROWS; ++row) {
        uint pair = (group_index() * SORT_ROWS + row) * GROUP + gl_LocalInvocationID.x;
        if (pair >= counts.pairs) return;
        uint low = 0u, high = blocks;  // the last block with pair_sums <= pair
        while (high - low > 1u) {
            uint middle = (low + high) / 2u;
            if (pair_sums[middle] <= pair) low = middle; else high = middle;
        }
        uint within = pair - pair_sums[low];
        high = min((low + 1u) * BLOCK, counts.visible);
        low *= BLOCK;  // the last of its splats with `first` <= within
        while (high - low > 1u) {
            uint middle = (low + high) / 2u;
            if (tile_reaches[middle].first <= within) low = middle; else high = middle;
        }
        TileReach r = tile_reaches[low];
        pair_tiles[pair] = tile_at(ellipse_of(tile_splats[low], r), within - r.first);
        pair_splats[pair] = low;
    }
}
