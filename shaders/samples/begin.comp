// Before the samples: the product of dL/dpixel and the finished pixel into d_image.a, and for each sample of each depth segment the rank beyond all, with the
// transmittance in front of the segment, or the nearest rank where the segments in front have finished its pixel, so that no splat there is looked at.
#include "contract/draw.glsl"
#include "contract/image.glsl"
#include "contract/samples.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
layout(constant_id = 9) const float LEAST = 1e-4;
SAMPLED_layers
LOADSTORE_d_image(rgba32f)
BUFFER_frame(readonly)
BUFFER_sample_ranks(writeonly)
#include "samples/block.glsl"
#include "samples/front.glsl"
#include "draw/layers.glsl"

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy), size = textureSize(layers, 0) / ivec2(1, SEGMENTS);
    uvec2 shape = uvec2(BLOCK_W, BLOCK_H), block = uvec2(at) / shape, inner = uvec2(at) % shape;
    if (block.x >= BLOCKS_X || block.y >= BLOCKS_Y) return;
    bool inside = all(lessThan(at, size));
    vec4 whole = vec4(0.0, 0.0, 0.0, 1.0);
    for (uint segment = 0u; segment < SEGMENTS; ++segment) {
        uint first = (place_of(block, segment) * PIXELS + inner.y * BLOCK_W + inner.x) * SAMPLES;
        for (uint s = 0u; s < SAMPLES; ++s) sample_ranks[first + s] = inside && whole.a >= LEAST ? NOTHING | pack_front(whole.a) : 0u;
        whole = behind(whole, layer(at, segment));
    }
    if (!inside) return;
    vec4 d = imageLoad(d_image, at);
    imageStore(d_image, at, vec4(d.rgb, dot(d.rgb, whole.rgb + whole.a * frame.background)));
}
