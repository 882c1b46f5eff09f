// Backward draw, front to back (Yuan & He 2025). The state enters as (colour of splats i and
// behind, T_i) and leaves for splat i + 1; the final colour is decomposed by subtraction, so
// nothing was stored in the forward pass. Nine moments a fragment go to <reduce>.
#define VARYING in
#include "contract/image.glsl"
#include "draw/segments.glsl"
#include "draw/varyings.glsl"
#include "gaussian2d.glsl"
#include "moments.glsl"
#include <order>
#include <atomics>
#include <reduce>

SAMPLED_d_image

void main() {
    vec2 at = gl_FragCoord.xy - vec2(0, v_top), d = v_mean - at;
    float unclamped = v_opacity * gaussian(d, v_conic), alpha = min(unclamped, ALPHA_MAX);
    // The same as gl_HelperInvocation, on which Mesa 22.3's lavapipe aborts.
    bool helper = gl_SampleMaskIn[0] == 0;

    ORDER_BEGIN(before)
    bool contributes = !helper && !elsewhere(at.y, float(textureSize(d_image, 0).y)) &&
                       alpha >= ALPHA_MIN && before.a >= T_MIN;
    vec4 after = contributes
                     ? vec4(before.rgb - before.a * alpha * v_color, before.a * (1.0 - alpha))
                     : before;
    ORDER_END(after)

    // Lanes that do not contribute compute along and end with zeros: a branch would only diverge
    // the subgroup that is about to be summed.
    vec4 d_pixel = contributes ? texelFetch(d_image, ivec2(at), 0) : vec4(0.0);
    // dL/dalpha_i = dL/dpixel . (c_i T_i - what is behind i / (1 - alpha_i)), with what is behind =
    // before - T_i alpha_i c_i
    float d_alpha =
        (dot(d_pixel.rgb, v_color * before.a - before.rgb) - d_pixel.a) / (1.0 - alpha);
    Moments moments =
        moments_of(unclamped * d_alpha, d, v_conic, d_pixel.rgb * (alpha * before.a));
    reduce_gradients(v_splat, contributes, numbers_of(moments));
}
