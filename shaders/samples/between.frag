// Backward draw of blocks without order and without chance: what is in front of a splat in its depth segment is guessed from its place there.
//
// Of the segment, T and D are known in front and behind (between.comp). A splat i with a share f of the segment's splats in front of it is taken to have the f-th part of
// the others' optical depth in front, P^f of their transmittance P, and of what the others add to D as much as light that falls off like that leaves there:
//     T_i = T P^f,   D_i = D - share (D - D_behind - T_i alpha_i k_i),   share = (1 - P^f) / (1 - P^f + (1 - alpha_i) (P^f - P)).
// With one splat of the segment at a pixel both are exact; the error falls with the number of segments.
#define VARYING in
#include "contract/image.glsl"
#include "contract/samples.glsl"
#include "contract/sort.glsl"
#include "draw/varyings.glsl"
#include "gaussian2d.glsl"
#include "moments.glsl"
#include <known>
layout(early_fragment_tests) in;
BUFFER_counts(readonly)
BUFFER_order(readonly)
SAMPLED_d_image
BUFFER_samples(readonly)
#include <atomics>
#include <reduce>
#include "samples/known.glsl"
#include "draw/segments.glsl"

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
        uint home = place_of(uvec2(gl_FragCoord.xy), 0u) * VECTORS, segment = uint(gl_FragCoord.y) / BLOCKS_Y;
        uvec4 raw[VECTORS];
        for (uint v = 0u; v < VECTORS; ++v) raw[v] = samples[home + v];
        vec4 loss[PIXELS];  // a: the product with the finished pixel
        for (uint i = 0u; i < PIXELS; ++i) loss[i] = unclamped[i] > 0.0 ? texelFetch(d_image, corner + ivec2(pixel_of(i)), 0) : vec4(0.0);
        splat = order[v_splat];
        uint start = segment_start(segment, counts.visible), end = segment_start(segment + 1u, counts.visible);
        float f = (float(v_splat - start) + 0.5) / float(end - start);
        for (uint i = 0u; i < PIXELS; ++i) {
            Known known = unpack_known(raw[i / PER_VECTOR])[i % PER_VECTOR];
            float alpha = min(unclamped[i], ALPHA_MAX), clear = 1.0 - alpha, norm = dot(abs(loss[i].rgb), vec3(1.0));
            float P = clamp(known.through / clear, 1e-6, 1.0), before = exp2(f * log2(P)), T = known.T * before;
            float k = norm > 0.0 ? (dot(loss[i].rgb, v_color) - loss[i].a) / norm : 0.0;
            float ahead = 1.0 - before, after = clear * (before - P), share = ahead + after > 1e-6 ? ahead / (ahead + after) : f;
            float D = known.front - share * (known.front - known.behind - T * alpha * k);
            add(moments, moments_of(unclamped[i] * norm * (T * k - D) / clear, d - vec2(pixel_of(i)), v_conic, loss[i].rgb * (alpha * T)));
        }
    }
    reduce_gradients(splat, covers, numbers_of(moments));
}
