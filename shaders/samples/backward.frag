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
#include "first_moments.glsl"
#include <seen>
layout(early_fragment_tests) in;
BUFFER_order(readonly)
BUFFER_samples(readonly)
#include <atomics>
#include <reduce>
#include "samples/block.glsl"
layout(constant_id = 11) const uint DRAWS = 1u;  // of a step

SAMPLED_d_image

void main() {
    ivec2 block = ivec2(floor(gl_FragCoord.xy - vec2(0, v_top))), corner = block * ivec2(BLOCK_W, BLOCK_H), last = textureSize(d_image, 0) - 1;
    vec2 d = v_mean - vec2(corner) - 0.5;
    float total = 0.0;        // of w
    vec2 first = vec2(0.0);   // of w t, w dy
    vec3 second = vec3(0.0);  // of w t^2, w t dy, w dy^2
    vec3 d_color = vec3(0.0);
    bool contributes = false;
    uint home = place_of(uvec2(gl_FragCoord.xy), 0u) * PIXELS;
    for (uint i = 0u; i < PIXELS; ++i) {
        ivec2 at = corner + ivec2(pixel_of(i));
        float G = gaussian(d - vec2(pixel_of(i)), v_conic), alpha = v_opacity * G;
        if (gl_SampleMaskIn[0] == 0 || alpha < ALPHA_MIN || any(greaterThan(uvec2(at), uvec2(last)))) continue;
        alpha = min(alpha, ALPHA_MAX);
        float seeing = 0.0, front = 0.0, behind = 0.0;  // samples that see i, and sums over the others
        Seen seen;
        for (uint v = 0u; v < VECTORS; ++v) {
            seen = unpack_seen(samples[(home + i) * VECTORS + v]);
            for (uint j = 0u; j < min(PER_VECTOR, SAMPLES); ++j) {
                seeing += seen.ranks[j] >= v_splat ? 1.0 : 0.0;
                behind += seen.ranks[j] > v_splat ? seen.values[j] : 0.0;
                front += seen.ranks[j] < v_splat ? seen.values[j] : 0.0;
            }
        }
        if (seen.T == 0.0) continue;
        contributes = true;
        float clear = 1.0 - alpha, guess = sqrt(min(seen.through / clear, 1.0));  // of the segment's transmittance in front of i, which is guess^2 to 1
        float by_front = clear / (clear + 1.0 - guess);
        vec4 pixel = texelFetch(d_image, at, 0) / float(SAMPLES * DRAWS);
        float T = seen.T * seeing, known = T * (dot(pixel.rgb, v_color) - pixel.a);
        d_color += pixel.rgb * (alpha * T);
        float others = (by_front * (front - seen.D * float(SAMPLES)) - (1.0 - by_front) * behind) / clear;
        float w = G * (known * mix(1.0, 1.0 / clear, by_front) + dot(abs(pixel.rgb), vec3(1.0)) * others);
        vec2 e = d - vec2(pixel_of(i));
        e.x += v_conic.y * e.y;
        total += w;
        first += first_of(w, e, v_conic);
        second += w * vec3(e.x * e.x, e.x * e.y, e.y * e.y);
    }
    uint splat = contributes ? order[v_splat] : 0u;
    reduce_gradients(splat, contributes, float[](total, first.x, first.y, second.x, second.y, second.z, d_color.r, d_color.g, d_color.b));
}
