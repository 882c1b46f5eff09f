// Radix sort, step 1 of 3: how often each digit occurs in each block of keys.
#include "common.glsl"
#include "contract/sort.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_keys(readonly)
BUFFER_digit_counts(writeonly)
#include "sort/keys.glsl"

shared uint histogram[RADIX];

void main() {
    uint t = gl_LocalInvocationID.x, block = group_index();
    if (block >= blocks_in_use()) return;
    histogram[t] = 0u;
    barrier();
    for (uint row = 0u; row < SORT_ROWS; ++row) {
        uint i = block * BLOCK + row * GROUP + t;
        uint key = i < key_count() ? keys[i] : NOT_VISIBLE;
        if (is_in(i, key)) atomicAdd(histogram[digit_of(key)], 1u);
    }
    barrier();
    digit_counts[t * row_stride() + block] = histogram[t];
}
