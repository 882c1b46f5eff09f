// Before the backward draw of blocks, see there: d = dL/dpixel and s = d . (the finished pixel) of each block, and D and T at the start of each depth segment.
// With F the part of the finished pixel that is in front of it, D = d . (the rest) - s T = s - s T - d . F; that is 0, with T = 1, for the first.
#include "contract/draw.glsl"
#include <state>
#include <upstream>
layout(local_size_x = TILE, local_size_y = TILE) in;
BUFFER_blocks(writeonly)
BUFFER_frame(readonly)
SAMPLED_layers
SAMPLED_d_image
BUFFER_upstream(writeonly)
#include "draw/block.glsl"
#include "draw/store_upstream.glsl"
#include "draw/layers.glsl"

void main() {
    uvec2 block = gl_GlobalInvocationID.xy;
    ivec2 size = textureSize(layers, 0) / ivec2(1, SEGMENTS);
    uint rows = (uint(size.y) + BLOCK_H - 1u) / BLOCK_H;
    if (block.x >= BLOCKS_X || block.y >= rows) return;
    ivec2 at[PIXELS];
    vec4 front[PIXELS];
    for (uint i = 0u; i < PIXELS; ++i) {
        at[i] = ivec2(block * uvec2(BLOCK_W, BLOCK_H) + pixel_of(i));
        vec4 whole = front[i] = vec4(0.0, 0.0, 0.0, 1.0);
        for (uint segment = 0u; segment < SEGMENTS; ++segment) whole = behind(whole, layer(at[i], segment));
        vec3 d = all(lessThan(at[i], size)) ? texelFetch(d_image, at[i], 0).rgb : vec3(0.0);
        loss[i] = upstream_of(d, whole.rgb + whole.a * frame.background);
    }
    store_upstream(block.y * BLOCKS_X + block.x);
    for (uint segment = 0u; segment < SEGMENTS; ++segment) {
        uint home = first_vector(block + uvec2(0, segment * rows));
        for (uint v = 0u; v < VECTORS; ++v) {
            vec2 start[PER_VECTOR];
            for (uint j = 0u; j < PER_VECTOR; ++j) {
                uint i = v * PER_VECTOR + j;
                start[j] = vec2(loss[i].s - loss[i].s * front[i].a - dot(loss[i].d, front[i].rgb), front[i].a);
                front[i] = behind(front[i], layer(at[i], segment));
            }
            blocks[home + v] = pack_pixels(start);
        }
    }
}
