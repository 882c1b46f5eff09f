// <counted>: how often the first digit of the sort by depth occurs in the keys of a workgroup, and
// an empty table for the pass that sorts by it; see sort/sweep.comp.
#include "contract/sort.glsl"
BUFFER_digit_counts(writeonly)
BUFFER_digit_totals(restrict)
layout(constant_id = 10) const uint BITS = 8u;  // of a digit
const uint DIGITS = 1u << BITS;
#include "sort/sums.glsl"
shared uint histogram[RADIX];

void count_key(uint key) {
    uint t = gl_LocalInvocationID.x, group = group_index();
    histogram[t] = 0u;
    barrier();
    if (key != NOT_VISIBLE) atomicAdd(histogram[key & (DIGITS - 1u)], 1u);
    barrier();
    if (t >= DIGITS || group * GROUP >= counts.splats) return;
    if (histogram[t] > 0u) atomicAdd(digit_totals[t], histogram[t]);
    if (group % SORT_ROWS == 0u) clear_rows(group / SORT_ROWS, 0u, t);
}
