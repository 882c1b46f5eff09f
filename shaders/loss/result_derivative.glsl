// <result> of loss/gradient.comp: dL/d image, of kept pixels.
#include "contract/image.glsl"
STORE_d_image

void begin_result() {}
void result(ivec2 at, bool kept, float per_value, Compared c) {
    // Stores outside the canvas are dropped.
    imageStore(d_image, at, vec4(kept ? per_value * d_pixel_terms(c) : vec3(0.0), 0.0));
}
void end_result() {}
