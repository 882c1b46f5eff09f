// Backward draw of blocks, front to back: as backward.frag, but a fragment covers a block of
// pixels, enters the ordered section once and sums their moments in registers before <reduce> sees
// them.
//
// A pixel's state is two numbers, because of a colour its loss sees only the part along
// d = dL/dpixel. With s = d . (the finished pixel) and k_i = d . c_i - s, what is behind is
// D_i = sum over j >= i of T_j alpha_j k_j + T_N (d . background - s), and
//     D_0 = 0,   D_{i+1} = D_i - T_i alpha_i k_i,   dL/dalpha_i = (T_i k_i - D_i) / (1 - alpha_i).
// Measured from s, D is small where a ray's colours are alike, and it is kept as a share of |d|_1,
// so that it fits 16 bits.
#define VARYING in
#include "contract/image.glsl"
#include "draw/varyings.glsl"
#include "gaussian2d.glsl"
#include "moments.glsl"
#include <state>
layout(early_fragment_tests) in;  // so that those of finished blocks do not run
#include <section>
#include <atomics>
#include <reduce>
#include "draw/block.glsl"
layout(constant_id = 9) const float LEAST = 0.0;  // transmittance of unfinished blocks

SAMPLED_d_image

void main() {
    ivec2 block = ivec2(floor(gl_FragCoord.xy - vec2(0, v_top)));
    vec2 d = v_mean - vec2(block * ivec2(BLOCK_W, BLOCK_H)) - 0.5;
    ivec2 corner = block * ivec2(BLOCK_W, BLOCK_H), last = textureSize(d_image, 0) - 1;
    // 0 where alpha is below the cut-off, or outside the image: above and below it are other
    // segments.
    float unclamped[PIXELS], alphas[PIXELS];
    vec3 d_pixels[PIXELS];
    float norms[PIXELS], ks[PIXELS];  // see norm_of, and k as a share of it
    bool covers = false;
    for (uint i = 0u; i < PIXELS; ++i) {
        ivec2 at = corner + ivec2(pixel_of(i));
        float alpha = v_opacity * gaussian(d - vec2(pixel_of(i)), v_conic);
        bool seen = alpha >= ALPHA_MIN && all(lessThanEqual(uvec2(at), uvec2(last)));
        vec4 pixel = seen ? texelFetch(d_image, at, 0) : vec4(0.0);
        unclamped[i] = seen ? alpha : 0.0;
        alphas[i] = min(unclamped[i], ALPHA_MAX);  // known before the section, in which others wait
        d_pixels[i] = pixel.rgb;
        norms[i] = norm_of(pixel);
        ks[i] = norms[i] > 0.0
                    ? clamp((dot(pixel.rgb, v_color) - pixel.a) / norms[i], -MOST_K, MOST_K)
                    : 0.0;
        covers = covers || seen;
    }
    covers = covers && gl_SampleMaskIn[0] != 0;  // not a helper lane, see backward.frag
    uint home = first_vector(uvec2(gl_FragCoord.xy));
    uvec4 before[VECTORS];
    SECTION_BEGIN
    if (covers) {
        for (uint v = 0u; v < VECTORS; ++v) before[v] = blocks[home + v];
        for (uint v = 0u; v < VECTORS; ++v) {
            vec2 p[PER_VECTOR] = unpack_pixels(before[v]);
            for (uint j = 0u; j < PER_VECTOR; ++j) {
                uint i = v * PER_VECTOR + j;
                float shown = p[j].y >= STATE_SCALE * T_MIN ? p[j].y * alphas[i] : 0.0;
                p[j] -= shown * vec2(ks[i], 1.0);
            }
            blocks[home + v] = pack_pixels(p);
        }
    }
    SECTION_END

    Moments moments = NO_MOMENTS;
    bool contributes = false;
    if (covers) {
        for (uint i = 0u; i < PIXELS; ++i) {
            vec2 p = unpack_pixels(before[i / PER_VECTOR])[i % PER_VECTOR] / STATE_SCALE;
            // A fragment that the depth test rejected may look alive to its quad, but what it adds
            // is lost, and what others let it add with its own.
            if (unclamped[i] == 0.0 || p.y < max(T_MIN, LEAST)) continue;
            contributes = true;
            float w = unclamped[i] * norms[i] * (ks[i] * p.y - p.x) / (1.0 - alphas[i]);
            add(moments,
                moments_of(w, d - vec2(pixel_of(i)), v_conic, d_pixels[i] * (alphas[i] * p.y)));
        }
    }
    reduce_gradients(v_splat, contributes, numbers_of(moments));
}
