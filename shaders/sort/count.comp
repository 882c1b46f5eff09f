// Radix sort: how often each value of a digit occurs in each block of keys, for digits that are not
// counted yet.
#extension GL_EXT_control_flow_attributes : require
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
    uint first = block * BLOCK + t, key[SORT_ROWS];
    [[unroll]] for (uint row = 0u; row < SORT_ROWS; ++row)
        key[row] = first + row * GROUP < key_count() ? keys[first + row * GROUP] : NOT_VISIBLE;
    begin_histogram();
    [[unroll]] for (uint row = 0u; row < SORT_ROWS; ++row)
        if (is_in(first + row * GROUP, key[row])) count_digit(digit_of(key[row]));
    end_histogram(block);
}
