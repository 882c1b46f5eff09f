// Backward draw of blocks, front to back: as backward.frag, but a fragment stands for a block of pixels, enters the ordered section once and
// sums their moments in registers before <reduce> sees them.
#define VARYING in
#include "contract.glsl"
#include "draw/varyings.glsl"
#include "gaussian2d.glsl"
#include <state>
#include <section>
#include <atomics>
#include <reduce>
#include "draw/block.glsl"

SAMPLED_d_image

void main() {
    uvec2 block = uvec2(gl_FragCoord.xy);
    vec2 d = v_mean - vec2(block * uvec2(BLOCK_W, BLOCK_H)) - 0.5;
    float Gs[PIXELS];  // 0 where alpha is below the cut-off
    bool covers = false;
    for (uint i = 0u; i < PIXELS; ++i) {
        float G = gaussian(d - vec2(pixel_of(i)), v_conic);
        bool seen = v_opacity * G >= ALPHA_MIN;
        Gs[i] = seen ? G : 0.0;
        covers = covers || seen;
    }
    covers = covers && gl_SampleMaskIn[0] != 0;  // not a helper lane, see backward.frag
    uint home = first_vector(block);
    uvec4 before[VECTORS];
    SECTION_BEGIN
    if (covers) {
        for (uint v = 0u; v < VECTORS; ++v) before[v] = blocks[home + v];
        for (uint v = 0u; v < VECTORS; ++v) {
            vec4 p[PER_VECTOR] = unpack_pixels(before[v]);
            for (uint j = 0u; j < PER_VECTOR; ++j) {
                float alpha = p[j].a >= T_MIN ? min(v_opacity * Gs[v * PER_VECTOR + j], ALPHA_MAX) : 0.0;
                p[j] = vec4(p[j].rgb - p[j].a * alpha * v_color, p[j].a * (1.0 - alpha));
            }
            blocks[home + v] = pack_pixels(p);
        }
    }
    SECTION_END

    float total = 0.0;        // of w
    vec2 first = vec2(0.0);   // of w t, w dy
    vec3 second = vec3(0.0);  // of w t^2, w t dy, w dy^2
    vec3 d_color = vec3(0.0);
    bool contributes = false;
    if (covers) {
        ivec2 corner = ivec2(block * uvec2(BLOCK_W, BLOCK_H)), last = textureSize(d_image, 0) - 1;
        for (uint i = 0u; i < PIXELS; ++i) {
            vec4 p = unpack_pixels(before[i / PER_VECTOR])[i % PER_VECTOR];
            ivec2 at = corner + ivec2(pixel_of(i));
            if (Gs[i] == 0.0 || p.a < T_MIN || any(greaterThan(at, last))) continue;
            contributes = true;
            float alpha = min(v_opacity * Gs[i], ALPHA_MAX);
            vec3 d_pixel = texelFetch(d_image, at, 0).rgb;
            d_color += d_pixel * (alpha * p.a);
            float w = Gs[i] * dot(d_pixel, v_color * p.a - p.rgb) / (1.0 - alpha);
            vec2 e = d - vec2(pixel_of(i));
            e.x += v_conic.y * e.y;
            total += w;
            first += w * e;
            second += w * vec3(e.x * e.x, e.x * e.y, e.y * e.y);
        }
    }
    reduce_gradients(v_splat, contributes, float[](total, first.x, first.y, second.x, second.y, second.z, d_color.r, d_color.g, d_color.b));
}
