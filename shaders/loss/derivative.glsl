// <result> of loss/gradient.comp: dL/d image, of kept pixels.
#include "contract/image.glsl"
STORE_d_image

void result(ivec2 at, bool kept, float per_value, vec3 x, vec3 y, vec3 d_ssim) {
    float weight = loss_settings.ssim_lambda;
    vec3 d = kept ? per_value * ((1.0 - weight) * sign(x - y) - weight * d_ssim) : vec3(0.0);
    imageStore(d_image, at, vec4(d, 0.0));  // stores outside the canvas are dropped
}
