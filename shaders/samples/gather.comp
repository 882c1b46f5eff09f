// What the samples of a pixel saw -> moments of those splats, as the ordered backward draws add them.
//
// A sample sees splat I with probability alpha_I T_I, and behind it splat K, whose colour has what is behind I as its mean. With g = dL/dpixel,
//     dL/dc_I = g,   dL/dalpha_I = g . (c_I - c_K) / alpha_I
// and nothing for other splats are unbiased (Xu et al. 2026). What is behind I is seen by more than one sample: all whose way past I is free, so their mean
// takes the place of c_K. Samples accept splats independently of each other's, so what lies behind I does not depend on who came so far.
#include "common.glsl"
#include "contract/image.glsl"
#include "contract/samples.glsl"
#include "contract/sort.glsl"
#include "contract/splats.glsl"
#include "gaussian2d.glsl"
#include "moments.glsl"
#extension GL_EXT_control_flow_attributes : require
#include <atomics>
#include <reduce>

layout(local_size_x = 8, local_size_y = 8) in;
layout(constant_id = 1) const float LARGEST = 1.0;  // colour that the target can hold
layout(constant_id = 4) const uint BLOCK_W = 1u;
layout(constant_id = 5) const uint BLOCK_H = 1u;
layout(constant_id = 7) const uint SAMPLES = 1u;  // of a pixel
layout(constant_id = 11) const uint DRAWS = 1u;
NUMBERS_nearest(NUMBERS)
NUMBERS_next(NUMBERS)
SAMPLED_d_image
BUFFER_frame(readonly)
BUFFER_order(readonly)
BUFFER_splats2d(readonly)
BUFFER_colors2d(readonly)

const uint BACKGROUND = 0xFFFFFFFFu;  // the farthest rank

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    if (any(greaterThanEqual(at, textureSize(d_image, 0)))) return;
    vec3 d_pixel = texelFetch(d_image, at, 0).rgb;
    if (d_pixel == vec3(0.0)) return;

    ivec2 block = ivec2(BLOCK_W, BLOCK_H), fragment = at / block, pixel = at - fragment * block;
    int first_sample = (pixel.y * block.x + pixel.x) * int(SAMPLES);
    uint ranks[2][SAMPLES];    // of I and K
    float values[2][SAMPLES];  // d_pixel . their colours
    [[unroll]] for (uint s = 0u; s < SAMPLES; ++s) {
        ranks[0][s] = texelFetch(nearest, fragment, first_sample + int(s)).r - 1u;
        ranks[1][s] = texelFetch(next, fragment, first_sample + int(s)).r - 1u;
        [[unroll]] for (uint k = 0u; k < 2u; ++k)
            values[k][s] = dot(d_pixel, ranks[k][s] == BACKGROUND ? frame.background : min(colors2d[order[ranks[k][s]]].rgb, LARGEST));
    }

    for (uint s = 0u; s < SAMPLES; ++s) {
        uint rank = ranks[0][s], same = 0u, behind = 0u;
        float sum = 0.0;
        bool first = true;  // of the samples that see this splat, which are taken together
        [[unroll]] for (uint t = 0u; t < SAMPLES; ++t) {
            first = first && (t >= s || ranks[0][t] != rank);
            same += uint(ranks[0][t] == rank);
            uint k = ranks[0][t] > rank ? 0u : 1u;
            if (k == 0u || ranks[1][t] > rank) {
                sum += k == 0u ? values[0][t] : values[1][t];
                ++behind;
            }
        }
        bool contributes = first && rank != BACKGROUND;
        uint splat = contributes ? order[rank] : 0u;
        Splat2D e = splats2d[splat];
        float opacity = colors2d[splat].a, share = contributes ? float(same) / float(SAMPLES * DRAWS) : 0.0;
        vec2 d = e.mean - vec2(at) - 0.5;
        // w = opacity G dL/dalpha, as if alpha were not clamped.
        float w = contributes ? share * (values[0][s] - sum / float(behind)) * max(1.0, opacity * gaussian(d, e.conic) / ALPHA_MAX) : 0.0;
        Moments moments = moments_of(w, d, e.conic, share * d_pixel);
        reduce_gradients(splat, contributes, numbers_of(moments));
    }
}
