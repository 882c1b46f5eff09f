// Radix sort, step 3 of 3: moves keys and values behind all that sort before them, keeping the order of equal digits. A subgroup has a run of keys of its own, and ranks
// them among those of its lanes and rounds that have the same digit.
#include "sort/wide.glsl"
layout(local_size_x = 256) in;
layout(local_size_x_id = 10) in;
layout(constant_id = 2) const bool LAST = false;  // nobody reads the keys of the last pass
BUFFER_counts(readonly)
#include "sort/wide_keys.glsl"
BUFFER_keys(readonly)
BUFFER_order(readonly)
BUFFER_keys_alt(writeonly)
BUFFER_order_alt(writeonly)
BUFFER_digit_counts(readonly)
BUFFER_digit_totals(writeonly)

const uint ROUNDS = KEYS / gl_WorkGroupSize.x, SUBGROUPS = gl_WorkGroupSize.x / LANES;
shared uint ranks[SUBGROUPS * DIGITS / 2u];  // keys of a digit that a subgroup had so far, then those of the subgroups before; two to a word

uint half_of(uint at) { return ranks[at / 2u] >> 16u * (at & 1u) & 0xFFFFu; }

void main() {
    uint t = gl_LocalInvocationIndex, block = group_index(), keys_here[ROUNDS], rank[ROUNDS], count = key_count();
    if (block == 0u)
        for (uint digit = t; digit < DIGITS; digit += gl_WorkGroupSize.x) digit_totals[digit] = 0u;  // clean for the next digit
    if (block >= blocks_in_use()) return;
    uint first = block * KEYS + gl_SubgroupID * ROUNDS * LANES + gl_SubgroupInvocationID, own = gl_SubgroupID * DIGITS;
    [[unroll]] for (uint round = 0u; round < ROUNDS; ++round) {
        uint i = first + round * LANES;
        keys_here[round] = i < count ? keys[i] : NOT_VISIBLE;
    }
    for (uint i = t; i < SUBGROUPS * DIGITS / 2u; i += gl_WorkGroupSize.x) ranks[i] = 0u;
    barrier();
    [[unroll]] for (uint round = 0u; round < ROUNDS; ++round) {
        uint digit = digit_of(keys_here[round]);
        bool here = first + round * LANES < count && !(FIRST && keys_here[round] == NOT_VISIBLE);
        uvec4 same = alike(digit, here);
        if (here) rank[round] = half_of(own + digit) + subgroupBallotExclusiveBitCount(same);
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        if (here && subgroupBallotFindLSB(same) == gl_SubgroupInvocationID) atomicAdd(ranks[(own + digit) / 2u], subgroupBallotBitCount(same) << 16u * (digit & 1u));
        subgroupMemoryBarrierShared();
        subgroupBarrier();
    }
    barrier();
    for (uint two = t; two < DIGITS / 2u; two += gl_WorkGroupSize.x) {
        uint before = 0u;
        for (uint s = 0u; s < SUBGROUPS; ++s) {
            uint n = ranks[s * DIGITS / 2u + two];
            ranks[s * DIGITS / 2u + two] = before;
            before += n;
        }
    }
    barrier();
    [[unroll]] for (uint round = 0u; round < ROUNDS; ++round) {
        uint i = first + round * LANES, digit = digit_of(keys_here[round]);
        if (i >= count || FIRST && keys_here[round] == NOT_VISIBLE) continue;
        uint place = digit_counts[block * DIGITS + digit] + half_of(own + digit) + rank[round];
        if (!LAST) keys_alt[place] = keys_here[round];
        order_alt[place] = FIRST ? i : order[i];
    }
}
