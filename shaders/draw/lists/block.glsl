// Lists of blocks of pixels: one for each block of each depth segment.
layout(constant_id = 4) const uint BLOCK_W = 1u;
layout(constant_id = 5) const uint BLOCK_H = 1u;
layout(constant_id = 6) const uint BLOCKS_X = 1u;   // blocks in a row of the canvas
layout(constant_id = 12) const uint BLOCKS_Y = 1u;  // and in a column of that of one depth segment
const uint PIXELS = BLOCK_W * BLOCK_H;

uvec2 pixel_of(uint i) { return uvec2(i % BLOCK_W, i / BLOCK_W); }

uint place_of(uvec2 block, uint segment) {
    return (segment * BLOCKS_Y + block.y) * BLOCKS_X + block.x;
}
