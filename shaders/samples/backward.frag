// Backward draw of blocks without any order: samples of each pixel say how much of a splat is seen, and what is in front of it and behind it.
//
// In each depth segment a sample accepts splats as opaque with their alphas and finds the nearest, I. In the mean over samples
//     [I >= i] T           is T_i,
//     [I < i] T k_I        is the sum of T_j alpha_j k_j over the splats j of the segment in front of i,      which leaves D_i of D,
//     [I > i] T k_I / (1 - alpha_i)   is T_i times the mean k behind i, for whether i is accepted depends on nothing else,
// with T, D and k as in look.comp. dL/dc_i = T_i alpha_i dL/dpixel, and dL/dalpha_i is known in two ways:
//     (T_i k_i - D_i) / (1 - alpha_i) by what is in front, and T_i k_i - (that mean) by what is behind.
// Their mixture is right whatever the weight, if that is no chance: this one is for the front where the segment lets much through.
#define VARYING in
#include "contract/image.glsl"
#include "contract/samples.glsl"
#include "contract/sort.glsl"
#include "draw/varyings.glsl"
#include "gaussian2d.glsl"
#include "moments.glsl"
#include <seen>
layout(early_fragment_tests) in;
BUFFER_order(readonly)
SAMPLED_d_image
BUFFER_samples(readonly)
#include <atomics>
#include <reduce>
#include "samples/block.glsl"
layout(constant_id = 9) const float LEAST = 0.0;          // transmittance of unfinished blocks
layout(constant_id = 3) const float LEAST_WEIGHT = 0.0;   // see unfinished.frag
layout(constant_id = 11) const uint DRAWS = 1u;           // of a step
const float ROUNDED = 1.01;                               // more than T is rounded by

void main() {
    ivec2 block = ivec2(floor(gl_FragCoord.xy - vec2(0, v_top))), corner = block * ivec2(BLOCK_W, BLOCK_H);
    vec2 d = v_mean - vec2(corner) - 0.5;
    uvec2 size = uvec2(textureSize(d_image, 0));
    float unclamped[PIXELS];  // alpha before it is clamped; 0 where it is below the cut-off, or outside the image: above and below it are other segments
    bool covers = false;
    for (uint i = 0u; i < PIXELS; ++i) {
        float alpha = v_opacity * gaussian(d - vec2(pixel_of(i)), v_conic);
        bool covered = alpha >= ALPHA_MIN && all(lessThan(uvec2(corner + ivec2(pixel_of(i))), size));
        unclamped[i] = covered ? alpha : 0.0;
        covers = covers || covered;
    }
    covers = covers && gl_SampleMaskIn[0] != 0;  // not a helper lane
    Moments moments = NO_MOMENTS;
    uint splat = 0u;
    if (covers) {
        // Everything is fetched before anything is made of it, so that one waiting is enough.
        uint home = place_of(uvec2(gl_FragCoord.xy), 0u) * PIXELS * VECTORS;
        uvec4 raw[PIXELS * VECTORS];
        for (uint v = 0u; v < PIXELS * VECTORS; ++v) raw[v] = samples[home + v];
        vec4 loss[PIXELS];  // a: the product with the finished pixel
        for (uint i = 0u; i < PIXELS; ++i) loss[i] = unclamped[i] > 0.0 ? texelFetch(d_image, corner + ivec2(pixel_of(i)), 0) / float(SAMPLES * DRAWS) : vec4(0.0);
        splat = order[v_splat];
        float most = 0.0;
        for (uint i = 0u; i < PIXELS; ++i) {
            float alpha = min(unclamped[i], ALPHA_MAX), clear = 1.0 - alpha;
            float seeing = 0.0, front = 0.0, behind = 0.0;  // samples that see i, and sums over the others
            Seen seen;
            for (uint v = 0u; v < VECTORS; ++v) {
                seen = unpack_seen(raw[i * VECTORS + v]);
                for (uint j = 0u; j < PER_VECTOR && j < SAMPLES; ++j) {
                    seeing += seen.ranks[j] >= v_splat ? 1.0 : 0.0;
                    behind += seen.ranks[j] > v_splat ? seen.values[j] : 0.0;
                    front += seen.ranks[j] < v_splat ? seen.values[j] : 0.0;
                }
            }
            float guess = sqrt(min(seen.through / clear, 1.0));  // of the segment's transmittance in front of i, which is guess^2 to 1
            float by_front = clear / (clear + 1.0 - guess), T = seen.T * seeing;
            float others = (by_front * (front - seen.D * float(SAMPLES)) - (1.0 - by_front) * behind) / clear;
            float known = T * (dot(loss[i].rgb, v_color) - loss[i].a) * mix(1.0, 1.0 / clear, by_front);
            float w = unclamped[i] * (known + dot(abs(loss[i].rgb), vec3(1.0)) * others);
            add(moments, moments_of(w, d - vec2(pixel_of(i)), v_conic, loss[i].rgb * (alpha * T)));
            most = max(most, seen.T);
        }
        // A fragment that the depth test rejected may look alive to its quad. What it adds would be lost, and what others let it add with its own.
        covers = most >= ROUNDED * LEAST && v_opacity * most >= ROUNDED * LEAST_WEIGHT;
        if (!covers) moments = NO_MOMENTS;
    }
    reduce_gradients(splat, covers, numbers_of(moments));
}
