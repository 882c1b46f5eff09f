// <result> of loss/gradient.comp for an image that was exposed: dL/d image as it was rendered, and
// sums over the pixels of a workgroup of the gradients of exposure.
#include "contract/image.glsl"
STORE_d_image
BUFFER_exposure_sums(writeonly)
#include "photographs/exposure/sum_all.glsl"

float sums_here[EXPOSURE_SUMS];

void begin_result() {
    [[unroll]] for (uint k = 0u; k < EXPOSURE_SUMS; ++k) sums_here[k] = 0.0;
}

void result(ivec2 at, bool kept, float per_value, Compared c) {
    vec3 d = vec3(0.0);
    if (kept)
        d = d_exposed_of(found, rendered(at), place_of(at), per_value * d_pixel_terms(c),
                         sums_here);
    imageStore(d_image, at, vec4(d, 0.0));  // stores outside the canvas are dropped
}

void end_result() {
    uvec2 tiles = ssim_tiles(camera.size);
    sum_all(sums_here);
    if (any(greaterThanEqual(gl_WorkGroupID.xy, tiles)) || gl_LocalInvocationIndex >= OWN_SUMS)
        return;
    exposure_sums[(gl_WorkGroupID.y * tiles.x + gl_WorkGroupID.x) * EXPOSURE_SUMS +
                  gl_LocalInvocationIndex] = totals[gl_LocalInvocationIndex];
}
