// Radix sort, step 1 of 2: one workgroup a digit turns its row of counts into the keys before each
// block, and leaves the row's total. It clears the row in which the next digit is counted.
#include "common.glsl"
#include "contract/sort.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_digit_counts(restrict)
BUFFER_digit_totals(writeonly)
#include "sort/keys.glsl"
#include "scan.glsl"

const uint EACH = 4u;  // blocks of a thread

void main() {
    uint t = gl_LocalInvocationID.x, digit = group_index();
    uint blocks = blocks_in_use(), before = 0u, row = row_of(digit, TURN),
         next = row_of(digit, 1u - TURN);
    for (uint start = 0u; start < blocks; start += EACH * GROUP) {
        uint first = start + EACH * t, values[EACH], own = 0u, sum;
        for (uint i = 0u; i < EACH; ++i) {
            values[i] = first + i < blocks ? digit_counts[row + first + i] : 0u;
            own += values[i];
        }
        uint running =
            before + scan_group(own, min((blocks - start + EACH - 1u) / EACH, GROUP), sum);
        for (uint i = 0u; i < EACH && first + i < blocks; ++i) {
            digit_counts[row + first + i] = running;
            if (NEXT) digit_counts[next + first + i] = 0u;
            running += values[i];
        }
        before += sum;
    }
    if (t == 0u) digit_totals[digit] = before;
}
