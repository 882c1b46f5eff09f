// <alpha>: what a splat covers of a pixel, from opacity times Gaussian there, at offset d = mean - pixel centre; below ALPHA_MIN it does not count.
#include "contract/core.glsl"

float alpha_of(float alpha, vec2 d, vec3 conic) { return min(alpha, ALPHA_MAX); }
