// The records of a splat's pairs -> its gradients, always added in the same order: tile by tile, of
// each subgroup by subgroup. A pair is found by its rank, which ascends within a tile, so nothing
// needs to remember where the sort put it; one that was dropped is not found. A lane has a splat;
// one with many tiles it shares with its whole subgroup.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "common.glsl"
#include "contract/tiles.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 1) const uint LANES = 32u;
layout(constant_id = 2) const uint SUBGROUPS = 8u;  // of the backward pass, a tile
// To the sums of another draw of the step; else the sums are all that a splat gets.
layout(constant_id = 27) const bool ADDS = false;
BUFFER_counts(readonly)
BUFFER_tile_starts(readonly)
BUFFER_pair_splats(readonly)
BUFFER_tile_splats(readonly)
BUFFER_tile_reaches(readonly)
BUFFER_pair_records(readonly)
BUFFER_pair_subgroups(readonly)
BUFFER_d_splats2d(restrict)

const uint WORDS = (LANES + 31u) / 32u;
float sum[GRADIENTS];
void store(uint splat) {
    for (uint i = 0u; i < GRADIENTS; ++i) {
        uint at = GRADIENT_STRIDE * splat + i;
        d_splats2d[at] = ADDS ? d_splats2d[at] + sum[i] : sum[i];
    }
}

void add_pair(uint tile, uint rank) {
    uint pair = tile_starts[tile], behind = tile_starts[tile + 1u], high = behind;
    while (pair < high) {
        uint middle = (pair + high) / 2u;
        if (pair_splats[middle] < rank) pair = middle + 1u; else high = middle;
    }
    if (pair == behind || pair_splats[pair] != rank) return;
    for (uint bits = pair_subgroups[pair]; bits != 0u; bits &= bits - 1u) {
        uint record = (pair * SUBGROUPS + uint(findLSB(bits))) * GRADIENTS;
        for (uint i = 0u; i < GRADIENTS; ++i) sum[i] += pair_records[record + i];
    }
}

// Tiles first, first + step, ... of a splat that touches `tiles` tiles.
void add_pairs(Ellipse e, uint tiles, uint rank, uint first, uint step) {
    for (uint i = 0u; i < GRADIENTS; ++i) sum[i] = 0.0;
    for (uint k = first; k < tiles; k += step) add_pair(tile_at(e, k), rank);
}

void main() {
    uint lane = gl_SubgroupInvocationID, first = group_index() * GROUP + gl_SubgroupID * LANES,
         rank = first + lane;
    if (first >= counts.visible) return;
    bool mine = rank < counts.visible;
    TileReach r = tile_reaches[mine ? rank : first];
    Ellipse e = ellipse_of(tile_splats[mine ? rank : first], r);
    uint tiles = tiles_of(e);
    bool large = mine && tiles > LANES;
    if (mine && !large) {
        add_pairs(e, tiles, rank, 0u, 1u);
        store(r.splat);
    }
    uvec4 shared_ones = subgroupBallot(large);
    for (uint w = 0u; w < WORDS; ++w)
        for (uint bits = shared_ones[w]; bits != 0u; bits &= bits - 1u) {
            uint one = first + 32u * w + uint(findLSB(bits));
            r = tile_reaches[one];
            e = ellipse_of(tile_splats[one], r);
            add_pairs(e, tiles_of(e), one, lane, LANES);
            for (uint i = 0u; i < GRADIENTS; ++i) sum[i] = subgroupAdd(sum[i]);
            if (lane == 0u) store(r.splat);
        }
}
