// Backward draw, front to back (Yuan & He 2025). The state enters as (colour of splats i and behind, T_i) and leaves for splat i + 1;
// the final colour is taken apart by subtraction, so nothing was stored in the forward pass. Nine gradients a fragment go to <reduce>.
#define VARYING in
#include "contract.glsl"
#include "draw/varyings.glsl"
#include "gaussian2d.glsl"
#include <quads>
#include <order>
#include <atomics>
#include <reduce>

SAMPLED_d_image

void main() {
    vec2 d = v_mean - gl_FragCoord.xy;
    float G = gaussian(d, v_conic);
    float alpha = min(v_opacity * G, ALPHA_MAX);
    bool helper = gl_SampleMaskIn[0] == 0;  // says what gl_HelperInvocation says; Mesa 22.3's lavapipe aborts on that one

    ORDER_BEGIN(before)
    bool contributes = !helper && alpha >= ALPHA_MIN && before.a >= T_MIN;
    vec4 after = contributes ? vec4(before.rgb - before.a * alpha * v_color, before.a * (1.0 - alpha)) : before;
    ORDER_END(after)

    float grad[9] = float[](0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    if (contributes) {
        vec3 d_pixel = texelFetch(d_image, ivec2(gl_FragCoord.xy), 0).rgb;
        // dL/dalpha_i = dL/dpixel . (c_i T_i - sum_{j>i} ...): colour_i - what is behind, divided by what alpha_i lets through
        float d_alpha = dot(d_pixel, v_color * before.a - before.rgb) / (1.0 - alpha);
        vec3 d_color = d_pixel * (alpha * before.a);
        float w = v_opacity * d_alpha * G;  // dL/dG * G, as if alpha were not clamped at ALPHA_MAX (Kerbl et al. 2023)
        grad[0] = -w * (v_conic.x * d.x + v_conic.y * d.y);
        grad[1] = -w * (v_conic.z * d.y + v_conic.y * d.x);
        grad[2] = -0.5 * w * d.x * d.x;
        grad[3] = -w * d.x * d.y;
        grad[4] = -0.5 * w * d.y * d.y;
        grad[5] = d_color.r;
        grad[6] = d_color.g;
        grad[7] = d_color.b;
        grad[8] = G * d_alpha;
    }
    reduce_gradients(v_splat, contributes, grad);
}
