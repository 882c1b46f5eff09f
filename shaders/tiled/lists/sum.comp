// The pairs of every GROUP visible splats -> those before each GROUP, behind the last their sum,
// and work sizes. One workgroup. Pairs beyond the buffers are dropped: the farthest ones. Or all of
// them, and tiles go through all splats.
#include "common.glsl"
#include "contract/tiles.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 6) const uint BUCKET = 512u;  // splats, see buckets.glsl
layout(constant_id = 29) const bool WHOLE = false;  // lists have all pairs or none
BUFFER_counts(restrict)
BUFFER_indirect(writeonly)
BUFFER_pair_tiles(readonly writeonly)  // its length
BUFFER_pair_sums(restrict)
#include "scan.glsl"

const uint BLOCK = GROUP * SORT_ROWS, EACH = 8u;  // sums of a thread

// Sums of pairs in two words, low and high: many large splats on many tiles make more than 2^32.
uvec2 add(uvec2 sum, uint value) {
    uint carry, low = uaddCarry(sum.x, value, carry);
    return uvec2(low, sum.y + carry);
}
uint saturated(uvec2 sum) { return sum.y > 0u ? 0xFFFFFFFFu : sum.x; }

// `sum` and what was scanned as low and high 16 bits apart, so that EACH * GROUP of them fit 32
// bits.
uvec2 add_halves(uvec2 sum, uint low, uint high) {
    return add(add(uvec2(sum.x, sum.y + (high >> 16u)), low), high << 16u);
}

void main() {
    uint t = gl_LocalInvocationID.x, groups = (counts.visible + GROUP - 1u) / GROUP, low_total,
         high_total;
    uvec2 before = uvec2(0u);
    for (uint start = 0u; start < groups; start += EACH * GROUP) {
        uint first = start + EACH * t, values[EACH], low = 0u, high = 0u,
             used = min((groups - start + EACH - 1u) / EACH, GROUP);
        for (uint i = 0u; i < EACH; ++i) {
            values[i] = first + i < groups ? pair_sums[first + i] : 0u;
            low += values[i] & 0xFFFFu;
            high += values[i] >> 16u;
        }
        uvec2 running = add_halves(before, scan_group(low, used, low_total),
                                   scan_group(high, used, high_total));
        for (uint i = 0u; i < EACH && first + i < groups; ++i) {
            pair_sums[first + i] = saturated(running);
            running = add(running, values[i]);
        }
        before = add_halves(before, low_total, high_total);
    }
    if (t > 0u) return;
    pair_sums[groups] = saturated(before);
    uint wanted = saturated(before), fit = uint(pair_tiles.length()),
         pairs = wanted <= fit ? wanted : WHOLE ? 0u : fit;
    counts.pairs = pairs;
    counts.checkpoints = 0u;
    counts.pairs_wanted = before.x;
    counts.pairs_wanted_high = before.y;
    indirect.pair_blocks = fold(pairs / BLOCK + 1u);
    indirect.buckets = fold(pairs / BUCKET + TILES);
    if (WHOLE) indirect.unlisted_tiles = wanted <= fit ? uvec3(0u) : fold(TILES);
}
