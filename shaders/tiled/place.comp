// Pairs in depth order -> by tile, in depth order. A workgroup has a block of pairs and knows where the next pair of every tile goes; its subgroups take turns.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "contract/tiles.glsl"
#include "contract/sort.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 1) const uint LANES = 32u;  // of a subgroup
layout(constant_id = 10) const uint BITS = 12u;  // of the number of a tile
BUFFER_counts(readonly)
BUFFER_pair_tiles(readonly)
BUFFER_pair_splats(readonly)
BUFFER_pair_splats_alt(writeonly)
BUFFER_digit_counts(readonly)
BUFFER_tile_starts(readonly)

const uint BLOCK = GROUP * SORT_ROWS;
shared uint next[TILES];

void main() {
    uint begin = group_index() * BLOCK + gl_SubgroupID * LANES * SORT_ROWS + gl_SubgroupInvocationID;
    if (group_index() * BLOCK >= counts.pairs) return;
    uint tiles[SORT_ROWS], splats[SORT_ROWS], ranks[SORT_ROWS], alike[SORT_ROWS], places[SORT_ROWS];
    [[unroll]] for (uint row = 0u; row < SORT_ROWS; ++row) {
        uint pair = begin + row * LANES;
        bool here = pair < counts.pairs;
        tiles[row] = here ? pair_tiles[pair] : 0u;
        splats[row] = here ? pair_splats[pair] : 0u;
    }
    for (uint tile = gl_LocalInvocationID.x; tile < TILES; tile += GROUP) next[tile] = tile_starts[tile] + digit_counts[group_index() * TILES + tile];
    [[unroll]] for (uint row = 0u; row < SORT_ROWS; ++row) {
        uvec4 same = subgroupBallot(begin + row * LANES < counts.pairs);
        for (uint bit = 0u; bit < BITS; ++bit) {
            bool one = (tiles[row] >> bit & 1u) != 0u;
            uvec4 ones = subgroupBallot(one);
            same &= one ? ones : ~ones;
        }
        ranks[row] = subgroupBallotExclusiveBitCount(same);
        alike[row] = subgroupBallotBitCount(same);
    }
    for (uint turn = 0u; turn < GROUP / LANES; ++turn) {
        barrier();
        if (gl_SubgroupID != turn) continue;
        [[unroll]] for (uint row = 0u; row < SORT_ROWS; ++row) {
            uint place = next[tiles[row]];
            subgroupMemoryBarrierShared();
            subgroupBarrier();
            if (ranks[row] == 0u && begin + row * LANES < counts.pairs) next[tiles[row]] = place + alike[row];
            subgroupMemoryBarrierShared();
            subgroupBarrier();
            places[row] = place + ranks[row];
        }
    }
    [[unroll]] for (uint row = 0u; row < SORT_ROWS; ++row)
        if (begin + row * LANES < counts.pairs) pair_splats_alt[places[row]] = splats[row];
}
