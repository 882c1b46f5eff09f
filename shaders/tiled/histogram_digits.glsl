// <histogram>: how often the first digit of the sort of pairs occurs in a block of them.
#include "sort/keys.glsl"
#include "sort/histogram.glsl"
void begin_tiles() { begin_histogram(); }
void count_tile(uint tile) { count_digit(digit_of(tile)); }
void end_tiles(uint block) { end_histogram(block); }
