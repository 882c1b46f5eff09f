// What the forward draw knows of each depth segment at the pixels of a block. With d = dL/dpixel, s = d . (the finished pixel) and k = (d . c - s) / |d|_1, as in look.comp:
// the transmittance T in front of the segment and that of the segment, the sum D of T k alpha over it and all behind it, and D of those behind it alone.
#include "contract/draw.glsl"
#include "contract/samples.glsl"
#include <known>
layout(local_size_x = TILE, local_size_y = TILE) in;
SAMPLED_layers
LOADSTORE_d_image(rgba32f)
BUFFER_frame(readonly)
BUFFER_samples(writeonly)
#include "samples/known.glsl"
#include "draw/layers.glsl"

void main() {
    uvec2 block = gl_GlobalInvocationID.xy;
    if (block.x >= BLOCKS_X || block.y >= BLOCKS_Y) return;
    ivec2 size = textureSize(layers, 0) / ivec2(1, SEGMENTS), at[PIXELS];
    vec4 d[PIXELS];  // as shares of |d|_1, with s in alpha
    float T[PIXELS], D[PIXELS];
    for (uint i = 0u; i < PIXELS; ++i) {
        at[i] = ivec2(block * uvec2(BLOCK_W, BLOCK_H) + pixel_of(i));
        vec4 whole = vec4(0.0, 0.0, 0.0, 1.0);
        for (uint segment = 0u; segment < SEGMENTS; ++segment) whole = behind(whole, layer(at[i], segment));
        bool inside = all(lessThan(at[i], size));
        d[i] = imageLoad(d_image, min(at[i], size - 1));
        d[i].a = dot(d[i].rgb, whole.rgb + whole.a * frame.background);
        if (inside) imageStore(d_image, at[i], d[i]);
        float norm = dot(abs(d[i].rgb), vec3(1.0));
        d[i] = norm > 0.0 ? d[i] / norm : vec4(0.0);
        T[i] = inside ? 1.0 : 0.0;
        D[i] = 0.0;
    }
    for (uint segment = 0u; segment < SEGMENTS; ++segment)
        for (uint v = 0u; v < VECTORS; ++v) {
            Known known[PER_VECTOR];
            for (uint j = 0u; j < PER_VECTOR; ++j) {
                uint i = min(v * PER_VECTOR + j, PIXELS - 1u);
                vec4 here = layer(at[i], segment);
                float rest = D[i] - T[i] * (dot(d[i].rgb, here.rgb) - (1.0 - here.a) * d[i].a);
                known[j] = Known(T[i], here.a, D[i], rest);
                if (v * PER_VECTOR + j < PIXELS) {
                    D[i] = rest;
                    T[i] *= here.a;
                }
            }
            samples[place_of(block, segment) * VECTORS + v] = pack_known(known);
        }
}
