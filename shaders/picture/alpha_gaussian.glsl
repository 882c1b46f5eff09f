// <alpha>: of a splat at offset d = mean - pixel centre; below ALPHA_MIN it does not count.
#include "contract/core.glsl"
#include "gaussian2d.glsl"

float alpha_of(vec2 d, vec3 conic, float opacity) { return min(opacity * gaussian(d, conic), ALPHA_MAX); }
