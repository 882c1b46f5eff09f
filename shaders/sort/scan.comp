// Radix sort, step 2 of 3: one workgroup a digit turns its row of counts into the keys before each block, and leaves the row's total.
#include "common.glsl"
#include "contract/sort.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_digit_counts(restrict)
BUFFER_digit_totals(writeonly)
#include "sort/keys.glsl"
#include "scan.glsl"

void main() {
    uint t = gl_LocalInvocationID.x, digit = group_index();
    uint blocks = blocks_in_use(), before = 0u;
    for (uint start = 0u; start < blocks; start += GROUP) {
        uint b = start + t;
        uint value = b < blocks ? digit_counts[digit * row_stride() + b] : 0u;
        uint sum;
        uint exclusive = scan_group(value, min(blocks - start, GROUP), sum);
        if (b < blocks) digit_counts[digit * row_stride() + b] = before + exclusive;
        before += sum;
    }
    if (t == 0u) digit_totals[digit] = before;
}
