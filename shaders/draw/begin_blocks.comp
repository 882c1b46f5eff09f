// The state of every block before the backward draw: the finished pixels over their background, and T_0 = 1.
#include "contract.glsl"
#include <state>
layout(local_size_x = TILE, local_size_y = TILE) in;
BUFFER_blocks(writeonly)
BUFFER_frame(readonly)
SAMPLED_target
#include "draw/block.glsl"

void main() {
    uvec2 block = gl_GlobalInvocationID.xy;
    ivec2 last = textureSize(target, 0) - 1;
    if (block.x >= BLOCKS_X || block.y * BLOCK_H > uint(last.y)) return;
    for (uint v = 0u; v < VECTORS; ++v) {
        vec4 p[PER_VECTOR];
        for (uint j = 0u; j < PER_VECTOR; ++j) {
            ivec2 at = min(ivec2(block * uvec2(BLOCK_W, BLOCK_H) + pixel_of(v * PER_VECTOR + j)), last);
            vec4 pixel = texelFetch(target, at, 0);
            p[j] = vec4(pixel.rgb + pixel.a * frame.background, 1.0);
        }
        blocks[first_vector(block) + v] = pack_pixels(p);
    }
}
