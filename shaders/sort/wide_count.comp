// Radix sort, step 1 of 3: how often each digit occurs in each block of keys, and in all.
#include "sort/wide.glsl"
layout(local_size_x = 256) in;
layout(local_size_x_id = 10) in;
BUFFER_counts(readonly)
#include "sort/wide_keys.glsl"
BUFFER_keys(readonly)
BUFFER_digit_counts(writeonly)
BUFFER_digit_totals(restrict)

const uint ROUNDS = KEYS / gl_WorkGroupSize.x;
shared uint histogram[DIGITS];

void main() {
    uint t = gl_LocalInvocationIndex, block = group_index(), keys_here[ROUNDS];
    if (block >= blocks_in_use()) return;
    uint count = key_count();
    [[unroll]] for (uint round = 0u; round < ROUNDS; ++round) {
        uint i = block * KEYS + round * gl_WorkGroupSize.x + t;
        keys_here[round] = i < count ? keys[i] : NOT_VISIBLE;
    }
    for (uint digit = t; digit < DIGITS; digit += gl_WorkGroupSize.x) histogram[digit] = 0u;
    barrier();
    [[unroll]] for (uint round = 0u; round < ROUNDS; ++round) {
        uint i = block * KEYS + round * gl_WorkGroupSize.x + t, digit = digit_of(keys_here[round]);
        bool here = i < count && !(FIRST && keys_here[round] == NOT_VISIBLE);
        uvec4 same = alike(digit, here);
        if (here && subgroupBallotFindLSB(same) == gl_SubgroupInvocationID) atomicAdd(histogram[digit], subgroupBallotBitCount(same));
    }
    barrier();
    for (uint digit = t; digit < DIGITS; digit += gl_WorkGroupSize.x) {
        digit_counts[block * DIGITS + digit] = histogram[digit];
        if (histogram[digit] > 0u) atomicAdd(digit_totals[digit], histogram[digit]);
    }
}
