// The order in which workgroups take the tiles: those with most pairs first, so that no long one begins when the others are done. One workgroup, a counting
// sort by the logarithm of the number, eight steps an octave; which of two alike comes first changes nothing but time.
#include "common.glsl"
#include "contract/tiles.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
BUFFER_tile_starts(readonly)
BUFFER_tile_order(writeonly)
#include "scan.glsl"

#include "tiled/classes.glsl"

void main() {
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
