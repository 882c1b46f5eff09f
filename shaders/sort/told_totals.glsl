// <told>: of all blocks in one sum, for sweep.comp, whose table is made ready.
BUFFER_digit_totals(restrict)
#include "sort/sums.glsl"
void tell(uint block, uint digit, uint keys) {
    if (keys > 0u) atomicAdd(digit_totals[SLOT * RADIX + digit], keys);
    clear_rows(block, TURN, digit);
}
