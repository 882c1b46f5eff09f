// <result> of loss/gradient.comp: what a pixel of `target` loses more than one of `target_minus`. L1 is compared as it is. SSIM of a pixel depends on its
// neighbours, so it enters by its gradient at `target`: a difference in the pixel itself, and the same to first order. What is left to second order does
// not change with the roles of the two images, so it averages out of a stochastic gradient.
#include "contract/stochastic.glsl"
SAMPLED_target_minus
BUFFER_loss_differences(writeonly)

void result(ivec2 at, bool kept, float per_value, vec3 x, vec3 y, vec3 d_ssim) {
    if (any(greaterThanEqual(uvec2(at), camera.size))) return;
    vec4 pixel = texelFetch(target_minus, at, 0);
    vec3 minus = pixel.rgb + pixel.a * frame.background;
    float weight = loss_settings.ssim_lambda, l1 = dot(abs(x - y) - abs(minus - y), vec3(1.0));
    loss_differences[uint(at.y) * camera.size.x + uint(at.x)] = kept ? per_value * ((1.0 - weight) * l1 - weight * dot(d_ssim, x - minus)) : 0.0;
}
