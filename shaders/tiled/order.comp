// The order in which workgroups take the tiles: those with most pairs first, so that no long one begins when the others are done. One workgroup, a counting
// sort by the logarithm of the number, eight steps an octave; which of two alike comes first changes nothing but time.
#include "common.glsl"
#include "contract/tiles.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 9) const bool COUNTED = false;  // tile_starts has the number of pairs of every tile
BUFFER_tile_starts(restrict)
BUFFER_tile_order(writeonly)
#include "scan.glsl"

#include "tiled/classes.glsl"

// Numbers of pairs -> where every tile's begin.
void scan_tiles() {
    uint t = gl_LocalInvocationID.x, each = (TILES + GROUP - 1u) / GROUP, first = min(t * each, TILES), behind = min(first + each, TILES), own = 0u, all;
    for (uint tile = first; tile < behind; ++tile) own += tile_starts[tile];
    uint running = scan_group(own, all);
    for (uint tile = first; tile < behind; ++tile) {
        uint pairs = tile_starts[tile];
        tile_starts[tile] = running;
        running += pairs;
    }
    if (t == 0u) tile_starts[TILES] = all;
    memoryBarrierBuffer();
    barrier();
}

void main() {
    if (COUNTED) scan_tiles();
    uint t = gl_LocalInvocationID.x, tiles;
    places[t] = 0u;
    barrier();
    for (uint tile = t; tile < TILES; tile += GROUP) atomicAdd(places[class_of(tile)], 1u);
    barrier();
    uint before = scan_group(places[t], tiles);
    places[t] = before;
    barrier();
    for (uint tile = t; tile < TILES; tile += GROUP) tile_order[atomicAdd(places[class_of(tile)], 1u)] = tile;
}
