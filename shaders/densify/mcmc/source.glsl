// Which splat a place becomes a copy of, drawn with probability proportional to opacity by two
// binary searches in running sums: for the workgroup, then for the splat. A draw is a hash of
// (seed, step, place), so passes draw again instead of writing down what was drawn.
#include "contract/refine.glsl"
#include "random.glsl"
#include "densify/mcmc/target.glsl"
layout(constant_id = 1) const bool ADDS = false;
BUFFER_frame(readonly)
BUFFER_flags(readonly)
BUFFER_flag_sums(readonly)

// The total of all weights; without any, there is nothing to draw from.
uint weights() { return flag_sums[(counts.splats + GROUP - 1u) / GROUP]; }

// The place that thread i fills, if it fills one: a dead one, or one behind the last.
bool fills(uint i, out uint place) {
    place = ADDS ? counts.splats + i : i;
    if (ADDS) return place < target();
    return place < counts.splats && (flags[place] & 1u) == 0u && weights() > 0u;
}

uint below(uint bits, uint limit) {  // uniform in 0 .. limit - 1
    uint high, low;
    umulExtended(bits, limit, high, low);
    return high;
}

uint source(uint place) {
    // Only when adding: N must grow as the host expects.
    if (weights() == 0u) return place % counts.splats;
    uvec4 bits = random_bits(uvec4(frame.seed, frame.step, place, DRAW_SOURCE));
    uint drawn = below(bits.x, weights());
    uint first = 0u, last = (counts.splats + GROUP - 1u) / GROUP;
    while (last - first > 1u) {  // flag_sums[first] <= drawn < flag_sums[last]
        uint middle = (first + last) / 2u;
        if (flag_sums[middle] <= drawn) first = middle;
        else last = middle;
    }
    first *= GROUP;
    last = min(first + GROUP, counts.splats) - 1u;
    drawn = below(bits.y, flags[last] >> 1u);
    while (first < last) {  // the first whose running sum exceeds the number drawn
        uint middle = (first + last) / 2u;
        if (flags[middle] >> 1u > drawn) last = middle;
        else first = middle + 1u;
    }
    return first;
}
