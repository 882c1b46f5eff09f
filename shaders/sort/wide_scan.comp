// Radix sort, step 2 of 3: the counts become the place of each block's first key of each digit. A workgroup takes COLUMNS digits, a thread some blocks of one.
#include "sort/wide.glsl"
#include "sort/command.glsl"
const uint COLUMNS = 32u, PARTS = GROUP / COLUMNS;
layout(local_size_x = GROUP) in;
BUFFER_counts(restrict)
#include "sort/wide_keys.glsl"
BUFFER_indirect(writeonly)
BUFFER_digit_counts(restrict)
BUFFER_digit_totals(readonly)
#include "scan.glsl"

shared uint sums[GROUP];

void main() {
    uint t = gl_LocalInvocationID.x, column = t % COLUMNS, part = t / COLUMNS, first = group_index() * COLUMNS, digit = first + column;
    uint before = 0u, all, within = t < COLUMNS ? digit_totals[digit] : 0u, own = 0u, unused;
    for (uint lower = t; lower < first; lower += GROUP) before += digit_totals[lower];
    scan_group(before, all);  // of the digits of workgroups before
    uint place = scan_group(within, unused);
    if (t < COLUMNS) sums[t] = all + place;
    if (FIRST && first + COLUMNS == DIGITS && t == COLUMNS - 1u) {
        uint visible = all + place + within;
        counts.visible = visible;
        indirect.visible_blocks = fold((visible + GROUP * SORT_ROWS - 1u) / (GROUP * SORT_ROWS));
        indirect.draw = draw_command(visible);
    }
    barrier();
    place = sums[column];
    uint blocks = blocks_in_use(), each = (blocks + PARTS - 1u) / PARTS, behind = min((part + 1u) * each, blocks);
    for (uint block = part * each; block < behind; ++block) own += digit_counts[block * DIGITS + digit];
    barrier();
    sums[t] = own;
    barrier();
    for (uint lower = 0u; lower < part; ++lower) place += sums[lower * COLUMNS + column];
    for (uint block = part * each; block < behind; ++block) {
        uint n = digit_counts[block * DIGITS + digit];
        digit_counts[block * DIGITS + digit] = place;
        place += n;
    }
}
