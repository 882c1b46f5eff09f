// Changes along rows of tiles -> where every tile's pairs start, the order in which workgroups take
// the tiles, and work sizes. One workgroup. Pairs beyond the buffers are dropped, tile by tile; all
// are, where there are many times as many.
#include "common.glsl"
#include "contract/tiles.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 6) const uint BUCKET = 512u;  // splats, see buckets.glsl
BUFFER_counts(restrict)
BUFFER_indirect(writeonly)
BUFFER_pair_splats(readonly writeonly)  // its length
BUFFER_tile_changes(restrict)
BUFFER_tile_starts(restrict coherent)
BUFFER_tile_cursors(writeonly)
BUFFER_tile_order(writeonly)
#include "scan.glsl"
#include "tiled/lists/classes.glsl"

shared uvec2 sums[2][GROUP];  // low and high words
shared uint kept;             // pairs

uvec2 sum_of(uvec2 a, uvec2 b) {
    uint carry, low = uaddCarry(a.x, b.x, carry);
    return uvec2(low, a.y + b.y + carry);
}

// The sum of `value` over lower threads; `total` is that over all.
uvec2 scan_sums(uvec2 value, out uvec2 total) {
    uint t = gl_LocalInvocationID.x, from = 0u;
    uvec2 inclusive = value;
    sums[0][t] = inclusive;
    barrier();
    for (uint step = 1u; step < GROUP; step <<= 1u) {
        if (t >= step) inclusive = sum_of(inclusive, sums[from][t - step]);
        from = 1u - from;
        sums[from][t] = inclusive;
        barrier();
    }
    total = sums[from][GROUP - 1u];
    uvec2 before = t > 0u ? sums[from][t - 1u] : uvec2(0u);
    barrier();
    return before;
}

void main() {
    uint t = gl_LocalInvocationID.x, all = (TILES_X + 1u) * TILES_Y,
         each = (all + GROUP - 1u) / GROUP, begin = min(t * each, all),
         end = min(begin + each, all), unused;
    if (t == 0u) kept = 0u;
    places[t] = 0u;
    // The changes of a row add up to nothing, so that running sums over all of them are those of
    // every row.
    int change = 0;
    for (uint i = begin; i < end; ++i) change += tile_changes[i];
    uint before = scan_group(uint(change), unused), pairs = before;
    uvec2 own = uvec2(0u), wanted;
    for (uint i = begin; i < end; ++i) {
        pairs += uint(tile_changes[i]);
        own = sum_of(own, uvec2(pairs, 0u));  // behind the last tile of a row it is 0
    }
    uvec2 place = scan_sums(own, wanted);
    uint room = pair_splats.length();
    if (wanted.y > 0u || wanted.x / 4u > room) room = 0u;
    pairs = before;
    for (uint i = begin; i < end; ++i) {
        pairs += uint(tile_changes[i]);
        tile_changes[i] = 0;  // clean for the next frame
        if (i % (TILES_X + 1u) < TILES_X) {
            uvec2 behind = sum_of(place, uvec2(pairs, 0u));
            bool fits = behind.y == 0u && behind.x <= room;
            tile_starts[i / (TILES_X + 1u) * TILES_X + i % (TILES_X + 1u)] =
                fits ? place.x : 0xFFFFFFFFu;
            if (fits) atomicMax(kept, behind.x);
            place = behind;
        }
    }
    if (t == 0u) tile_starts[TILES] = 0xFFFFFFFFu;
    memoryBarrierBuffer();
    barrier();
    for (uint tile = t; tile <= TILES; tile += GROUP) {
        uint start = min(tile_starts[tile], kept);
        tile_starts[tile] = start;
        if (tile < TILES) tile_cursors[tile] = start;
    }
    memoryBarrierBuffer();
    barrier();
    for (uint tile = t; tile < TILES; tile += GROUP) atomicAdd(places[class_of(tile)], 1u);
    barrier();
    uint first = scan_group(places[t], unused);
    places[t] = first;
    barrier();
    for (uint tile = t; tile < TILES; tile += GROUP)
        tile_order[atomicAdd(places[class_of(tile)], 1u)] = tile;
    if (t > 0u) return;
    counts.pairs = kept;
    counts.checkpoints = 0u;
    counts.pairs_wanted = wanted.x;
    counts.pairs_wanted_high = wanted.y;
    indirect.buckets = fold(kept / BUCKET + TILES);
}
