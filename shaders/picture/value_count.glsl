// <value>: how many splats cover the pixel, see alpha_count.glsl.
#include "contract/core.glsl"
vec2 value_of(vec4 pixel) { return vec2(round(log(pixel.a) / log(1.0 - ALPHA_MIN)), 1.0); }
