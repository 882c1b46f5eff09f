// <told>: in the table of counts, for scan.comp.
void tell(uint block, uint digit, uint keys) { digit_counts[row_of(digit, TURN) + block] = keys; }
