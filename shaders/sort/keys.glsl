// What the passes of the radix sort share: which digit, how many keys, where a block starts, and
// the table of counts.
#include "contract/sort.glsl"
layout(constant_id = 0) const uint SHIFT = 0u;
// The first pass reads all splats, takes their index as value and drops the culled ones.
layout(constant_id = 1) const bool FIRST = false;
layout(constant_id = 9) const bool PAIRS = false;  // sorts pairs of tile and splat, not splats
layout(constant_id = 10) const uint BITS = 8u;     // of a digit
// Which half of the table this digit has; the next one has the other.
layout(constant_id = 11) const uint TURN = 0u;
// The next digit is counted where keys go; else it has a pass that counts it.
layout(constant_id = 12) const bool NEXT = true;

const uint BLOCK = GROUP * SORT_ROWS, DIGITS = 1u << BITS;

uint key_count() { return PAIRS ? counts.pairs : FIRST ? counts.splats : counts.visible; }
uint digit_of(uint key) { return (key >> SHIFT) & (DIGITS - 1u); }
uint next_digit_of(uint key) { return (key >> (SHIFT + BITS)) & (DIGITS - 1u); }
bool is_in(uint i, uint key) { return i < key_count() && !(FIRST && key == NOT_VISIBLE); }
uint blocks_in_use() { return (key_count() + BLOCK - 1u) / BLOCK; }
// Where a row of the table begins: a number for every block.
uint row_of(uint digit, uint turn) {
    return (turn * RADIX + digit) * (uint(digit_counts.length()) / (2u * RADIX));
}
