// <alpha>: the same for every splat that covers the pixel, so that T is (1 - ALPHA_MIN)^count.
#include "contract/core.glsl"
#include "gaussian2d.glsl"

float alpha_of(vec2 d, vec3 conic, float opacity) { return opacity * gaussian(d, conic) >= ALPHA_MIN ? ALPHA_MIN : 0.0; }
