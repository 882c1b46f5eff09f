// <alpha>: the same for every splat that covers the pixel, so that T is (1 - ALPHA_MIN)^count.
#include "contract/core.glsl"

float alpha_of(float alpha, vec2 d, vec3 conic) { return alpha >= ALPHA_MIN ? ALPHA_MIN : 0.0; }
