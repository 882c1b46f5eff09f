// Blocks of pixels: a fragment of the draw covers BLOCK_W x BLOCK_H pixels, whose states lie
// together in `blocks`.
layout(constant_id = 4) const uint BLOCK_W = 2u;
layout(constant_id = 5) const uint BLOCK_H = 2u;
layout(constant_id = 6) const uint BLOCKS_X = 1u;  // blocks in a row of the canvas
const uint PIXELS = BLOCK_W * BLOCK_H;
const uint VECTORS = (PIXELS + PER_VECTOR - 1u) / PER_VECTOR;

uvec2 pixel_of(uint i) { return uvec2(i % BLOCK_W, i / BLOCK_W); }
uint first_vector(uvec2 block) { return (block.y * BLOCKS_X + block.x) * VECTORS; }
