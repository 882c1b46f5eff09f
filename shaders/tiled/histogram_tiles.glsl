// <histogram>: how often every tile occurs in a block of pairs; a row of the table is a block.
const uint BLOCK = GROUP * SORT_ROWS;
shared uint histogram[TILES];

void begin_tiles() {
    for (uint tile = gl_LocalInvocationID.x; tile < TILES; tile += GROUP) histogram[tile] = 0u;
    barrier();
}

void count_tile(uint tile) { atomicAdd(histogram[tile], 1u); }

void end_tiles(uint block) {
    barrier();
    for (uint tile = gl_LocalInvocationID.x; tile < TILES; tile += GROUP) digit_counts[block * TILES + tile] = histogram[tile];
}
