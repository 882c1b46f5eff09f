// Radix sort: how often each value of a digit occurs in each block of keys, for digits that nobody counted yet.
#include "common.glsl"
#include "contract/sort.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_keys(readonly)
BUFFER_digit_counts(writeonly)
#include "sort/keys.glsl"
#include "sort/histogram.glsl"

void main() {
    uint t = gl_LocalInvocationID.x, block = group_index();
    if (block >= blocks_in_use()) return;
    begin_histogram();
    for (uint row = 0u; row < SORT_ROWS; ++row) {
        uint i = block * BLOCK + row * GROUP + t;
        uint key = i < key_count() ? keys[i] : NOT_VISIBLE;
        if (is_in(i, key)) count_digit(digit_of(key));
    }
    end_histogram(block);
}
