// Before the backward draw of blocks, see there: s = d . (the finished pixel) into d_image.a, which
// T dL/dT is added to, and D and T at the start of each depth segment. With F the part of the
// finished pixel that is in front of it, D = d . (the rest) - s T = s - s T - d . F; that is 0,
// with T = 1, for the first, which may be left out.
#include "contract/draw.glsl"
#include <state>
layout(constant_id = 7) const uint FIRST = 0u;  // segment that is stored
layout(local_size_x = TILE, local_size_y = TILE) in;
BUFFER_blocks(writeonly)
BUFFER_frame(readonly)
SAMPLED_layers
LOADSTORE_d_image(rgba32f)
#include "draw/block.glsl"
#include "draw/layers.glsl"

void main() {
    uvec2 block = gl_GlobalInvocationID.xy;
    ivec2 size = textureSize(layers, 0) / ivec2(1, SEGMENTS);
    uint rows = (uint(size.y) + BLOCK_H - 1u) / BLOCK_H;
    if (block.x >= BLOCKS_X || block.y >= rows) return;
    ivec2 at[PIXELS];
    vec4 front[PIXELS], d[PIXELS];  // d with s in its alpha, as shares of |d|_1
    for (uint i = 0u; i < PIXELS; ++i) {
        at[i] = ivec2(block * uvec2(BLOCK_W, BLOCK_H) + pixel_of(i));
        vec4 whole = front[i] = vec4(0.0, 0.0, 0.0, 1.0);
        for (uint segment = 0u; segment < SEGMENTS; ++segment)
            whole = behind(whole, layer(at[i], segment));
        d[i] = imageLoad(d_image, min(at[i], size - 1));
        float of_T = OF_T ? d[i].a : 0.0;
        d[i].a = dot(d[i].rgb, whole.rgb + whole.a * frame.background) + of_T;
        if (all(lessThan(at[i], size))) imageStore(d_image, at[i], d[i]);
        float norm = norm_of(d[i]);
        d[i] = norm > 0.0 ? d[i] / norm : vec4(0.0);
    }
    for (uint segment = 0u; segment < SEGMENTS; ++segment) {
        uint home = first_vector(block + uvec2(0, (segment - FIRST) * rows));
        for (uint v = 0u; v < VECTORS; ++v) {
            vec2 start[PER_VECTOR];
            for (uint j = 0u; j < PER_VECTOR; ++j) {
                uint i = min(v * PER_VECTOR + j, PIXELS - 1u);
                float D = d[i].a - d[i].a * front[i].a - dot(d[i].rgb, front[i].rgb);
                start[j] = STATE_SCALE * vec2(clamp(D, -MOST_K, MOST_K), front[i].a);
                if (v * PER_VECTOR + j < PIXELS) front[i] = behind(front[i], layer(at[i], segment));
            }
            if (segment >= FIRST) blocks[home + v] = pack_pixels(start);
        }
    }
}
