// <alpha>: a line along the edge of the ellipse alpha >= ALPHA_MIN, opaque for a pixel and faded out after another one, over a tint of the splat.
#include "contract/core.glsl"

const float LINE = 0.7, TINT = 0.1;

float alpha_of(float alpha, vec2 d, vec3 conic) {
    if (alpha < ALPHA_MIN) return 0.0;
    float t = d.x + conic.y * d.y;
    vec2 slope = vec2(conic.x * t, conic.x * conic.y * t + conic.z * d.y);  // of minus the logarithm of alpha, px^-1
    float to_edge = log(alpha / ALPHA_MIN) / max(length(slope), 1e-6);  // px, to first order
    return max(LINE * clamp(2.0 - to_edge, 0.0, 1.0), min(TINT * alpha, ALPHA_MAX));
}
