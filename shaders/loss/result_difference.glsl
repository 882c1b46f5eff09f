// <result> of loss/gradient.comp: what a pixel of `target` loses more than one of `target_minus`.
#include "contract/stochastic.glsl"
SAMPLED_target_minus
BUFFER_loss_differences(writeonly)

void begin_result() {}
void result(ivec2 at, bool kept, float per_value, Compared c) {
    if (any(greaterThanEqual(uvec2(at), camera.size))) return;
    vec4 pixel = texelFetch(target_minus, at, 0);
    c.minus = pixel.rgb + pixel.a * frame.background;
    loss_differences[uint(at.y) * camera.size.x + uint(at.x)] =
        kept ? per_value * pixel_terms_difference(c) : 0.0;
}
void end_result() {}
