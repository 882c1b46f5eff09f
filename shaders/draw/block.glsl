// Blocks of pixels: a fragment of the draw covers BLOCK_W x BLOCK_H pixels, whose states lie
// together in `blocks`.
layout(constant_id = 4) const uint BLOCK_W = 2u;
layout(constant_id = 5) const uint BLOCK_H = 2u;
layout(constant_id = 6) const uint BLOCKS_X = 1u;  // blocks in a row of the canvas
// There is a gradient of T too, and d_image is fresh for every draw.
layout(constant_id = 13) const bool OF_T = false;
const uint PIXELS = BLOCK_W * BLOCK_H;
const uint VECTORS = (PIXELS + PER_VECTOR - 1u) / PER_VECTOR;

uvec2 pixel_of(uint i) { return uvec2(i % BLOCK_W, i / BLOCK_W); }
// What D and k of a pixel are shares of: |d|_1, or s where T makes that the larger one.
float norm_of(vec4 d) {
    float norm = dot(abs(d.rgb), vec3(1.0));
    return OF_T ? max(norm, abs(d.a)) : norm;
}
uint first_vector(uvec2 block) { return (block.y * BLOCKS_X + block.x) * VECTORS; }
