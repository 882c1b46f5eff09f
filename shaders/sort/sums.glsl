// What workgroups of sort/sweep.comp tell each other: how often each digit occurs in each block, in
// every 32 blocks and in every 1 024. A word has the sum, and above it the number of blocks in it,
// so it says itself whether it is complete, and needs no order with other words.
const uint SUM_BITS = 21u, ONE_BLOCK = 1u << SUM_BITS, SUM = ONE_BLOCK - 1u;
const uint FEW = 32u, MANY = FEW * FEW;         // blocks of a sum
layout(constant_id = 14) const uint SLOT = 0u;  // of the digit, in digit_totals
const uint TICKET = RADIX - 1u;                 // there, the blocks that workgroups have taken

uint blocks_in(uint word) { return word >> SUM_BITS; }

// Where the table of a turn has what a block is part of: the block itself, then sums of few and of
// many.
uvec3 rows_of(uint block, uint turn) {
    uint half_size = uint(digit_counts.length()) / 2u, blocks = half_size / (2u * DIGITS);
    return turn * half_size +
           DIGITS * uvec3(block, blocks + block / FEW, blocks + blocks / FEW + 1u + block / MANY);
}

// Makes ready the table of a turn for a block.
void clear_rows(uint block, uint turn, uint digit) {
    uvec3 rows = rows_of(block, turn);
    digit_counts[rows.x + digit] = 0u;
    if (block % FEW == 0u) digit_counts[rows.y + digit] = 0u;
    if (block % MANY == 0u) digit_counts[rows.z + digit] = 0u;
}
