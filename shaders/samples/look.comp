// What the samples of a pixel see in each depth segment. With d = dL/dpixel, s = d . (the finished pixel) and k = (d . c - s) / |d|_1 (a constant added to all colours
// changes no gradient, and this one makes k small): the transmittance T in front of the segment, the sum D of T k alpha over it and all behind it, the segment's own
// transmittance, and for each sample T k of the splat that it found, or the mean of that behind the segment.
#include "contract/draw.glsl"
#include "contract/samples.glsl"
#include "contract/sort.glsl"
#include "contract/splats.glsl"
#include <seen>
layout(local_size_x = TILE, local_size_y = TILE) in;
layout(constant_id = 1) const float LARGEST = 1.0;  // colour that the target can hold
SAMPLED_layers
SAMPLED_d_image
BUFFER_frame(readonly)
BUFFER_order(readonly)
BUFFER_colors2d(readonly)
BUFFER_sample_ranks(readonly)
BUFFER_samples(writeonly)
#include "samples/block.glsl"
#include "draw/layers.glsl"

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    uvec2 shape = uvec2(BLOCK_W, BLOCK_H), block = uvec2(at) / shape, inner = uvec2(at) % shape;
    if (block.x >= BLOCKS_X || block.y >= BLOCKS_Y) return;
    vec4 d = texelFetch(d_image, min(at, textureSize(d_image, 0) - 1), 0);
    float norm = dot(abs(d.rgb), vec3(1.0)), T = 1.0, D = 0.0;
    d = norm > 0.0 ? d / norm : vec4(0.0);
    for (uint segment = 0u; segment < SEGMENTS; ++segment) {
        vec4 here = layer(at, segment);
        float rest = D - T * (dot(d.rgb, here.rgb) - (1.0 - here.a) * d.a);
        uint pixel = place_of(block, segment) * PIXELS + inner.y * BLOCK_W + inner.x;
        for (uint v = 0u; v < VECTORS; ++v) {
            Seen seen;
            seen.D = D;
            seen.T = T;
            seen.through = here.a;
            for (uint j = 0u; j < PER_VECTOR; ++j) {
                uint s = v * PER_VECTOR + j, rank = s < SAMPLES ? sample_ranks[pixel * SAMPLES + s] & NOTHING : NOTHING;
                float value = rest / max(here.a, 1e-6);
                if (rank != NOTHING) value = T * (dot(d.rgb, min(colors2d[order[rank]].rgb, vec3(LARGEST))) - d.a);
                seen.ranks[j] = rank;
                seen.values[j] = value;
            }
            samples[pixel * VECTORS + v] = pack_seen(seen);
        }
        D = rest;
        T *= here.a;
    }
}
