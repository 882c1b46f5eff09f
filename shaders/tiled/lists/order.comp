// Where every tile's pairs start, and the order in which workgroups take the tiles: those with most
// pairs first, so that no long one begins when the others are done. One workgroup. The order is a
// counting sort by the logarithm of the number, eight steps an octave; which of two alike comes
// first changes nothing but time.
#include "common.glsl"
#include "contract/tiles.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_tile_starts(restrict coherent)
BUFFER_tile_order(writeonly)
#include "scan.glsl"

#include "tiled/lists/classes.glsl"

// tile_starts: of a tile with pairs how many its own and those behind them are, of others 0 ->
// where its pairs start; where the next one's do, if it has none. A thread has neighbouring tiles,
// the first thread the last ones.
void find_starts() {
    uint t = gl_LocalInvocationID.x, each = (TILES + GROUP - 1u) / GROUP,
         behind = TILES - min(t * each, TILES), first = TILES - min((t + 1u) * each, TILES),
         own = 0u;
    for (uint tile = first; tile < behind; ++tile) own = max(own, tile_starts[tile]);
    uint pairs = greatest_before(own);
    for (uint tile = behind; tile > first; --tile) {
        pairs = max(pairs, tile_starts[tile - 1u]);
        tile_starts[tile - 1u] = counts.pairs - pairs;
    }
    if (t == 0u) tile_starts[TILES] = counts.pairs;
    memoryBarrierBuffer();
    barrier();
}

void main() {
    uint t = gl_LocalInvocationID.x, tiles;
    find_starts();
    places[t] = 0u;
    barrier();
    for (uint tile = t; tile < TILES; tile += GROUP) atomicAdd(places[class_of(tile)], 1u);
    barrier();
    uint before = scan_group(places[t], tiles);
    places[t] = before;
    barrier();
    for (uint tile = t; tile < TILES; tile += GROUP)
        tile_order[atomicAdd(places[class_of(tile)], 1u)] = tile;
}
