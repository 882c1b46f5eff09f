// The pairs of tile and splat, splat by splat in depth order, so that a stable sort by tile alone leaves every tile's splats in depth order.
// Threads share a block's pairs evenly, however many of them one splat has. Pairs beyond the buffers are dropped: the farthest ones.
#include "common.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 6) const uint BUCKET = 512u;  // splats, see buckets.glsl
layout(constant_id = 8) const uint PARTS = 1u;     // workgroups that the backward pass gives a bucket
BUFFER_counts(restrict)
BUFFER_indirect(writeonly)
BUFFER_tile_splats(readonly)
BUFFER_pair_sums(readonly)
BUFFER_pair_tiles(writeonly)
BUFFER_pair_splats(writeonly)
#include "scan.glsl"

const uint BLOCK = GROUP * SORT_ROWS;
shared uint firsts[BLOCK];  // pairs of the block's splats before each

void main() {
    uint t = gl_LocalInvocationID.x, block = group_index(), visible = counts.visible;
    if (block * BLOCK >= visible) return;
    uint before = 0u, total;
    for (uint b = t; b < block; b += GROUP) before += pair_sums[b];
    scan_group(before, before);
    for (uint row = 0u; row < SORT_ROWS; ++row) {
        uint i = row * GROUP + t, rank = block * BLOCK + i;
        firsts[i] = rank < visible ? tile_splats[rank].tiles : 0u;
    }
    barrier();
    uint mine = 0u;
    for (uint i = 0u; i < SORT_ROWS; ++i) mine += firsts[t * SORT_ROWS + i];
    uint first = scan_group(mine, total);
    for (uint i = 0u; i < SORT_ROWS; ++i) {
        uint tiles = firsts[t * SORT_ROWS + i];
        firsts[t * SORT_ROWS + i] = first;
        first += tiles;
    }
    barrier();

    uint capacity = uint(pair_tiles.length());
    for (uint j = t; j < total && before + j < capacity; j += GROUP) {
        uint low = 0u, high = BLOCK;  // the last splat with firsts <= j
        while (high - low > 1u) {
            uint middle = (low + high) / 2u;
            if (firsts[middle] <= j) low = middle; else high = middle;
        }
        pair_tiles[before + j] = tile_at(ellipse_of(tile_splats[block * BLOCK + low]), j - firsts[low]);
        pair_splats[before + j] = block * BLOCK + low;
    }
    if (t == 0u && (block + 1u) * BLOCK >= visible) {  // the last block knows the total
        uint wanted = before + total, pairs = min(wanted, capacity);
        counts.pairs = pairs;
        counts.pairs_wanted = wanted;
        indirect.pair_blocks = fold((pairs + BLOCK - 1u) / BLOCK);
        indirect.pair_groups = fold(pairs / GROUP + 1u);
        indirect.buckets = fold((pairs / BUCKET + TILES) * PARTS);
    }
}
