// The pairs of tile and splat, splat by splat in depth order, so that a stable sort by tile alone leaves every tile's splats in depth order; and how often the
// first digit of that sort occurs in a block of them. A workgroup has a block of pairs. It finds the splats that they are of, and where the pairs of each begin, by looking at all of them at
// once; a thread then finds the splat of a pair among those: however many pairs one splat has, threads do alike.
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
BUFFER_digit_counts(writeonly)
#include "contract/sort.glsl"
#include "sort/keys.glsl"
#include "sort/histogram.glsl"

const uint MOST = 8u * GROUP;  // splats that a block of pairs is looked for among; of more, which touch nothing mostly, each thread asks memory
shared uint firsts[MOST], found[2];

// The first pair of a splat, counted from that of all.
uint first_pair(uint rank) { return pair_sums[rank / GROUP] + tile_reaches[rank].first; }

// The groups of splats that have the pairs `begin` and `last`: of the last group that begins at or before it, the number.
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

void main() {
    uint t = gl_LocalInvocationID.x, begin = group_index() * BLOCK, behind = min(begin + BLOCK, counts.pairs);
    if (begin >= counts.pairs) return;
    uvec2 groups = groups_with(begin, behind - 1u, (counts.visible + GROUP - 1u) / GROUP);
    uint base = groups.x * GROUP, ranks = min((groups.y + 1u) * GROUP, counts.visible) - base;
    if (ranks <= MOST)
        for (uint i = t; i < ranks; i += GROUP) firsts[i] = first_pair(base + i);
    begin_histogram();
    for (uint pair = begin + t; pair < behind; pair += GROUP) {
        uint low = 0u, high = ranks;  // the last splat that begins at or before the pair
        while (high - low > 1u) {
            uint middle = (low + high) / 2u;
            if ((ranks <= MOST ? firsts[middle] : first_pair(base + middle)) <= pair) low = middle; else high = middle;
        }
        uint rank = base + low, tile = tile_at(ellipse_of(tile_splats[rank], tile_reaches[rank]), pair - first_pair(rank));
        pair_tiles[pair] = tile;
        pair_splats[pair] = rank;
        count_digit(digit_of(tile));
    }
    end_histogram(group_index());
}
