// What the passes of the radix sort share: which digit, how many keys, where a block starts.
#include "contract/sort.glsl"
layout(constant_id = 0) const uint SHIFT = 0u;
layout(constant_id = 1) const bool FIRST = false;  // the first pass reads all splats, takes their index as value and drops the culled ones
layout(constant_id = 9) const bool PAIRS = false;  // sorts pairs of tile and splat, not splats

const uint BLOCK = GROUP * SORT_ROWS;

uint key_count() { return PAIRS ? counts.pairs : FIRST ? counts.splats : counts.visible; }
uint digit_of(uint key) { return (key >> SHIFT) & (RADIX - 1u); }
bool is_in(uint i, uint key) { return i < key_count() && !(FIRST && key == NOT_VISIBLE); }
uint blocks_in_use() { return (key_count() + BLOCK - 1u) / BLOCK; }
uint row_stride() { return uint(digit_counts.length()) / RADIX; }
