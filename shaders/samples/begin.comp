// Before the samples: what the pixels of each block get from the loss, and for each sample of each depth segment the rank beyond all, or the nearest one where the
// segments in front have finished its pixel, so that no splat there is looked at.
#include "contract/draw.glsl"
#include "contract/image.glsl"
#include "contract/samples.glsl"
#include <upstream>
layout(local_size_x = TILE, local_size_y = TILE) in;
layout(constant_id = 9) const float LEAST = 1e-4;
SAMPLED_layers
SAMPLED_d_image
BUFFER_frame(readonly)
BUFFER_upstream(writeonly)
BUFFER_sample_ranks(writeonly)
#include "samples/block.glsl"
#include "draw/layers.glsl"
#include "draw/store_upstream.glsl"

void main() {
    uvec2 block = gl_GlobalInvocationID.xy;
    if (block.x >= BLOCKS_X || block.y >= BLOCKS_Y) return;
    ivec2 size = textureSize(layers, 0) / ivec2(1, SEGMENTS);
    for (uint i = 0u; i < PIXELS; ++i) {
        ivec2 at = ivec2(block * uvec2(BLOCK_W, BLOCK_H) + pixel_of(i));
        bool inside = all(lessThan(at, size));
        vec4 whole = vec4(0.0, 0.0, 0.0, 1.0);
        for (uint segment = 0u; segment < SEGMENTS; ++segment) {
            uint first = (place_of(block, segment) * PIXELS + i) * SAMPLES;
            for (uint s = 0u; s < SAMPLES; ++s) sample_ranks[first + s] = inside && whole.a >= LEAST ? NOTHING : 0u;
            whole = behind(whole, layer(at, segment));
        }
        loss[i] = upstream_of(inside ? texelFetch(d_image, at, 0).rgb : vec3(0.0), whole.rgb + whole.a * frame.background);
    }
    store_upstream(place_of(block, 0u));
}
