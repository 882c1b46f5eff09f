// Radix sort, step 2 of 2: moves keys and values behind all that sort before them, keeping the
// order of equal digits, and counts the next digit where they go. A segment of the workgroup, see
// <rank>, ranks its own neighbouring keys of the block without waiting for the others; then the
// segments' counts are added up. Keys are put in order in shared memory first, so that neighbouring
// threads write to neighbouring places.
#include "common.glsl"
#include "contract/sort.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 2) const bool LAST = false;  // the keys of the last pass are not read

BUFFER_counts(restrict)
BUFFER_indirect(writeonly)
BUFFER_keys(readonly)
BUFFER_order(readonly)
BUFFER_keys_alt(writeonly)
BUFFER_order_alt(writeonly)
BUFFER_digit_counts(restrict)
BUFFER_digit_totals(readonly)
#include "sort/keys.glsl"
#include "sort/command.glsl"
#include "scan.glsl"
// SEGMENT threads; thread(); begin_ranks(), in_segment(digit, here): how many of the segment's keys
// of this digit come before this one
#include <rank>
// arrived(key, place): of keys that are alike in a block the first went to this place
#include <arrived>
#ifndef FILLED_arrived
void arrived(uint key, uint place) {}
#endif
// offsets: from the place within the block to that of all.
shared uint sorted_keys[BLOCK], sorted_values[BLOCK], offsets[DIGITS];

void main() {
    uint t = gl_LocalInvocationID.x, block = group_index(), visible;  // or the number of pairs
    uint before = scan_group(t < DIGITS ? digit_totals[t] : 0u, visible);
    if (block == 0u && t == 0u && FIRST) {
        counts.visible = visible;
        indirect.visible_blocks = fold((visible + BLOCK - 1u) / BLOCK);
        indirect.visible_groups = fold((visible + GROUP - 1u) / GROUP);
        indirect.draw = draw_command(visible);
    }
    uint count = FIRST ? counts.splats : visible;
    if (block * BLOCK >= count) return;
    if (t < DIGITS) before += digit_counts[row_of(t, TURN) + block];
    uint segment = thread() / SEGMENT,
         first = block * BLOCK + segment * SEGMENT * SORT_ROWS + thread() % SEGMENT;
    uint key[SORT_ROWS], value[SORT_ROWS], rank[SORT_ROWS];
    for (uint row = 0u; row < SORT_ROWS; ++row) {
        uint i = first + row * SEGMENT;
        key[row] = i < count ? keys[i] : NOT_VISIBLE;
        value[row] = FIRST ? i : i < count ? order[i] : 0u;
    }
    begin_ranks();
    for (uint row = 0u; row < SORT_ROWS; ++row) {
        bool here = first + row * SEGMENT < count && !(FIRST && key[row] == NOT_VISIBLE);
        rank[row] = in_segment(segment, digit_of(key[row]), here);
        if (!here) rank[row] = NOT_VISIBLE;
    }
    barrier();
    uint own = 0u, within, keys_here;
    if (t < DIGITS)
        for (uint s = 0u; s < GROUP / SEGMENT; ++s) own += places[s << BITS | t];
    within = scan_group(own, keys_here);
    if (t < DIGITS) {
        offsets[t] = before - within;
        for (uint s = 0u; s < GROUP / SEGMENT; ++s) {
            uint more = places[s << BITS | t];
            places[s << BITS | t] = within;
            within += more;
        }
    }
    barrier();
    for (uint row = 0u; row < SORT_ROWS; ++row) {
        if (rank[row] == NOT_VISIBLE) continue;
        uint place = places[segment << BITS | digit_of(key[row])] + rank[row];
        sorted_keys[place] = key[row];
        sorted_values[place] = value[row];
    }
    barrier();
    for (uint i = t; i < keys_here; i += GROUP) {
        uint own_key = sorted_keys[i], place = offsets[digit_of(own_key)] + i;
        if (!LAST) keys_alt[place] = own_key;
        order_alt[place] = sorted_values[i];
        if (i == 0u || sorted_keys[i - 1u] != own_key) arrived(own_key, place);
        if (NEXT)
            atomicAdd(digit_counts[row_of(next_digit_of(own_key), 1u - TURN) + place / BLOCK], 1u);
    }
}
