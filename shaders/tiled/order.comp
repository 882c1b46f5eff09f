// Where every tile's pairs start, and the order in which workgroups take the tiles: those with most pairs first, so that no long one begins when the others are done.
// One workgroup. The order is a counting sort by the logarithm of the number, eight steps an octave; which of two alike comes first changes nothing but time.
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "contract/tiles.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_tile_starts(restrict coherent)
BUFFER_tile_order(writeonly)
#include "scan.glsl"

#include "tiled/classes.glsl"

const uint EACH = 8u;  // tiles that a thread asks for at once

// tile_starts: of a tile with pairs how many its own and those behind them are, of others 0 -> where its pairs start; where the next one's do, if it has none.
// A thread has neighbouring tiles, the first thread the last ones.
void find_starts() {
    uint t = gl_LocalInvocationID.x, known = 0u, greatest;
    for (uint done = 0u; done < TILES; done += EACH * GROUP) {
        uint first = done + EACH * t, values[EACH], own = 0u;
        [[unroll]] for (uint i = 0u; i < EACH; ++i) {
            values[i] = first + i < TILES ? tile_starts[TILES - 1u - first - i] : 0u;
            own = max(own, values[i]);
        }
        uint pairs = max(known, greatest_before(own, greatest));
        [[unroll]] for (uint i = 0u; i < EACH; ++i) {
            pairs = max(pairs, values[i]);
            if (first + i < TILES) tile_starts[TILES - 1u - first - i] = counts.pairs - pairs;
        }
        known = max(known, greatest);
    }
    if (t == 0u) tile_starts[TILES] = counts.pairs;
    memoryBarrierBuffer();
    barrier();
}

// EACH tiles' classes, from `first` on; of those that are none GROUP.
uint[EACH] classes_from(uint first) {
    uint classes[EACH];
    [[unroll]] for (uint i = 0u; i < EACH; ++i) classes[i] = first + i * GROUP < TILES ? class_of(first + i * GROUP) : GROUP;
    return classes;
}

void main() {
    uint t = gl_LocalInvocationID.x, tiles;
    find_starts();
    places[t] = 0u;
    barrier();
    for (uint first = t; first < TILES; first += EACH * GROUP) {
        uint classes[EACH] = classes_from(first);
        [[unroll]] for (uint i = 0u; i < EACH; ++i)
            if (classes[i] < GROUP) atomicAdd(places[classes[i]], 1u);
    }
    barrier();
    uint before = scan_group(places[t], tiles);
    places[t] = before;
    barrier();
    for (uint first = t; first < TILES; first += EACH * GROUP) {
        uint classes[EACH] = classes_from(first);
        [[unroll]] for (uint i = 0u; i < EACH; ++i)
            if (classes[i] < GROUP) tile_order[atomicAdd(places[classes[i]], 1u)] = first + i * GROUP;
    }
}
