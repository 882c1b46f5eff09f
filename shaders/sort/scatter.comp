// Radix sort, step 3 of 3: moves keys and values behind all that sort before them, keeping the order of equal digits.
// The rank among equal digits of a row of GROUP keys comes from one bit mask a digit, so it needs no subgroup size.
#include "common.glsl"
#include "contract/sort.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 2) const bool LAST = false;  // nobody reads the keys of the last pass

BUFFER_counts(restrict)
BUFFER_indirect(writeonly)
BUFFER_keys(readonly)
BUFFER_order(readonly)
BUFFER_keys_alt(writeonly)
BUFFER_order_alt(writeonly)
BUFFER_digit_counts(readonly)
BUFFER_digit_totals(readonly)
#include "sort/keys.glsl"
#include "sort/command.glsl"
#include "scan.glsl"

const uint WORDS = GROUP / 32u;
shared uint masks[WORDS * RADIX];  // who of the row has this digit; word by word, so that neighbouring digits lie in different banks
shared uint next_place[RADIX];

void main() {
    uint t = gl_LocalInvocationID.x, block = group_index(), visible;  // or the number of pairs
    uint before = scan_group(digit_totals[t], visible);
    if (block == 0u && t == 0u && FIRST) {
        counts.visible = visible;
        indirect.visible_blocks = fold((visible + BLOCK - 1u) / BLOCK);
        indirect.draw = draw_command(visible);
    }
    uint count = FIRST ? counts.splats : visible;
    if (block * BLOCK >= count) return;
    next_place[t] = before + digit_counts[t * row_stride() + block];
    for (uint w = 0u; w < WORDS; ++w) masks[w * RADIX + t] = 0u;
    barrier();

    for (uint row = 0u; row < SORT_ROWS; ++row) {
        uint i = block * BLOCK + row * GROUP + t;
        uint key = i < count ? keys[i] : NOT_VISIBLE;
        bool here = i < count && !(FIRST && key == NOT_VISIBLE);
        uint digit = digit_of(key), rank = 0u, in_row = 0u;
        if (here) atomicOr(masks[t / 32u * RADIX + digit], 1u << (t & 31u));
        barrier();
        if (here) {
            for (uint w = 0u; w < WORDS; ++w) {
                uint mask = masks[w * RADIX + digit];
                in_row += bitCount(mask);
                if (w < t / 32u) rank += bitCount(mask);
                if (w == t / 32u) rank += bitCount(mask & ((1u << (t & 31u)) - 1u));
            }
            uint place = next_place[digit] + rank;
            if (!LAST) keys_alt[place] = key;
            order_alt[place] = FIRST ? i : order[i];
        }
        barrier();
        if (here && rank == in_row - 1u) {  // the last of its digit prepares the next row
            next_place[digit] += in_row;
            for (uint w = 0u; w < WORDS; ++w) masks[w * RADIX + digit] = 0u;
        }
        barrier();
    }
}
