// Before the backward draw of blocks: D_0 = 0 and T_0 = 1 everywhere, and d_image.a = s, see backward_blocks.frag.
#include "contract.glsl"
#include <state>
layout(local_size_x = TILE, local_size_y = TILE) in;
BUFFER_blocks(writeonly)
BUFFER_frame(readonly)
SAMPLED_target
LOADSTORE_d_image(rgba32f)
#include "draw/block.glsl"

void main() {
    uvec2 block = gl_GlobalInvocationID.xy;
    ivec2 last = textureSize(target, 0) - 1;
    if (block.x >= BLOCKS_X || block.y * BLOCK_H > uint(last.y)) return;
    vec2 start[PER_VECTOR];
    for (uint j = 0u; j < PER_VECTOR; ++j) start[j] = vec2(0.0, 1.0);
    for (uint v = 0u; v < VECTORS; ++v) blocks[first_vector(block) + v] = pack_pixels(start);
    for (uint i = 0u; i < PIXELS; ++i) {
        ivec2 at = ivec2(block * uvec2(BLOCK_W, BLOCK_H) + pixel_of(i));
        if (any(greaterThan(at, last))) continue;
        vec4 pixel = texelFetch(target, at, 0);
        vec3 d_pixel = imageLoad(d_image, at).rgb;
        imageStore(d_image, at, vec4(d_pixel, dot(d_pixel, pixel.rgb + pixel.a * frame.background)));
    }
}
