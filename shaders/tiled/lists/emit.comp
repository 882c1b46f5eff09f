// The pairs of tile and splat, splat by splat in depth order, so that a stable sort by tile alone
// leaves every tile's splats in depth order; and how often the first digit of that sort occurs in a
// block of them. A workgroup has a block of pairs. It looks at all splats that they are of, each of
// which marks its first pair of the block. The greatest mark at or before a pair is its splat.
// Threads take pairs, however many one splat has; a splat whose tiles do not fit a span is a
// subgroup's, a row of tiles a lane.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "common.glsl"
#include "contract/tiles.glsl"
#include "tiled/lists/spans.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_tile_splats(readonly)
BUFFER_tile_reaches(readonly)
BUFFER_tile_spans(readonly)
BUFFER_pair_sums(readonly)
BUFFER_pair_tiles(writeonly)
BUFFER_pair_splats(writeonly)
BUFFER_digit_counts(writeonly)
BUFFER_tile_starts(writeonly)
#include "contract/sort.glsl"
#include "sort/keys.glsl"
#include "sort/histogram.glsl"
#include "scan.glsl"

// wide: splats of the block whose tiles do not fit a span.
shared uint marks[BLOCK], found[2], wide[BLOCK], wide_count;

// The first pair of a splat, counted from that of all.
uint first_pair(uint rank) { return pair_sums[rank / GROUP] + tile_reaches[rank].first; }

// The groups of splats that have the pairs `begin` and `last`: of the last group that begins at or
// before it, the number.
uvec2 groups_with(uint begin, uint last, uint groups) {
    uint t = gl_LocalInvocationID.x;
    if (t < 2u) found[t] = 0u;
    for (uint step = groups; step > 1u;) {
        uint span = step;
        step = (span + GROUP - 1u) / GROUP;
        barrier();
        uvec2 from = uvec2(found[0], found[1]);
        barrier();
        uvec2 at = from + t * step;
        if (t * step < span && at.x < groups && pair_sums[at.x] <= begin) atomicMax(found[0], at.x);
        if (t * step < span && at.y < groups && pair_sums[at.y] <= last) atomicMax(found[1], at.y);
    }
    barrier();
    return uvec2(found[0], found[1]);
}

// Every mark := the greatest at or before it.
void spread_marks() {
    uint first = gl_LocalInvocationID.x * SORT_ROWS, own = 0u;
    for (uint i = first; i < first + SORT_ROWS; ++i) own = max(own, marks[i]);
    uint greatest = greatest_before(own);
    for (uint i = first; i < first + SORT_ROWS; ++i) marks[i] = greatest = max(greatest, marks[i]);
}

void put(uint pair, uint rank, uint tile) {
    pair_tiles[pair] = tile;
    pair_splats[pair] = rank;
    count_digit(digit_of(tile));
}

// Those pairs of a splat that are the block's. The last row has what is left: a pair has a tile,
// whatever a driver makes of `precise`.
void put_rows(uint rank, uint begin, uint behind) {
    Ellipse e = ellipse_of(tile_splats[rank], tile_reaches[rank]);
    uvec2 rows = rows_of(e);
    rows.y = max(rows.y, rows.x + 1u);
    uint next = first_pair(rank);
    behind = rank + 1u < counts.visible ? min(first_pair(rank + 1u), behind) : behind;
    for (uint first = rows.x; first < rows.y; first += gl_SubgroupSize) {
        uint y = first + gl_SubgroupInvocationID;
        uvec2 columns = y < rows.y ? columns_of(e, y) : uvec2(0u);
        uint n = columns.y - columns.x, start = next + subgroupExclusiveAdd(n),
             end = y + 1u == rows.y ? behind : min(start + n, behind);
        next += subgroupAdd(n);
        for (uint pair = max(start, begin); pair < end; ++pair)
            put(pair, rank, min(y * TILES_X + columns.x + pair - start, TILES - 1u));
        subgroupBarrier();  // lanes are together again for the sums of the next rows
    }
}

void main() {
    uint t = gl_LocalInvocationID.x, begin = group_index() * BLOCK,
         behind = min(begin + BLOCK, counts.pairs);
    // See order.comp.
    for (uint i = group_index() * GROUP + t; i < TILES;
         i += gl_NumWorkGroups.x * gl_NumWorkGroups.y * GROUP)
        tile_starts[i] = 0u;
    if (begin >= counts.pairs) return;
    for (uint i = t; i < BLOCK; i += GROUP) marks[i] = 0u;
    if (t == 0u) wide_count = 0u;
    begin_histogram();
    uvec2 groups = groups_with(begin, behind - 1u, (counts.visible + GROUP - 1u) / GROUP);
    uint base = groups.x * GROUP, ranks = min((groups.y + 1u) * GROUP, counts.visible) - base;
    for (uint i = t; i < ranks; i += GROUP) {
        uint first = max(first_pair(base + i), begin),
             next = i + 1u < ranks ? min(first_pair(base + i + 1u), behind) : behind;
        if (first >= next) continue;
        marks[first - begin] = i;
        if (tile_spans[base + i].x == ELLIPSE) wide[atomicAdd(wide_count, 1u)] = base + i;
    }
    barrier();
    spread_marks();
    barrier();
    for (uint pair = begin + t; pair < behind; pair += GROUP) {
        uint rank = base + marks[pair - begin];
        uvec4 span = tile_spans[rank];
        if (span.x != ELLIPSE) put(pair, rank, tile_in(span, pair - first_pair(rank)));
    }
    for (uint i = gl_SubgroupID; i < wide_count; i += gl_NumSubgroups)
        put_rows(wide[i], begin, behind);
    end_histogram(group_index());
}
