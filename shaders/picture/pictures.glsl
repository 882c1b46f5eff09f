// What a picture makes of a splat at a pixel, and the number that a pixel then has. PICTURE is
// numbered as in app/hardsplat/tables/pictures.py.
#include "contract/core.glsl"
layout(constant_id = 21) const uint PICTURE = 0u;
const uint PICTURE_DEPTH = 1u, PICTURE_COUNT = 3u, PICTURE_OUTLINES = 4u,
           PICTURE_MEDIAN = 5u;
const float LINE = 0.7, TINT = 0.1;  // of outlines

// A line along the edge of the ellipse alpha >= ALPHA_MIN, opaque for a pixel and faded out after
// another one, over a tint of the splat.
float line_of(float alpha, vec2 d, vec3 conic) {
    if (alpha < ALPHA_MIN) return 0.0;
    float t = d.x + conic.y * d.y;
    // The slope of minus the logarithm of alpha, px^-1.
    vec2 slope = vec2(conic.x * t, conic.x * conic.y * t + conic.z * d.y);
    float to_edge = log(alpha / ALPHA_MIN) / max(length(slope), 1e-6);  // px, to first order
    return max(LINE * clamp(2.0 - to_edge, 0.0, 1.0), min(TINT * alpha, ALPHA_MAX));
}

// What a splat covers of a pixel, from opacity times Gaussian there, at offset d = mean - pixel
// centre; below ALPHA_MIN it does not count. Splats that are counted cover the same wherever they
// are, so that T is (1 - ALPHA_MIN)^count.
float alpha_of(float alpha, vec2 d, vec3 conic) {
    if (PICTURE == PICTURE_COUNT) return alpha >= ALPHA_MIN ? ALPHA_MIN : 0.0;
    if (PICTURE == PICTURE_OUTLINES) return line_of(alpha, d, conic);
    return min(alpha, ALPHA_MAX);
}

// The colour of a splat at offset d. Depth is (z, its slopes) and becomes (z at this pixel, 1, 0).
vec3 color_at(vec3 color, vec2 d) {
    bool depth = PICTURE == PICTURE_DEPTH || PICTURE == PICTURE_MEDIAN;
    return depth ? vec3(color.x - dot(color.yz, d), 1.0, 0.0) : color;
}

// state = (sum T_i alpha_i c_i, T) with one more splat behind those before. Median depth is that of
// the last splat before which more than half of the light is left (Huang et al. 2024, eq. 20).
vec4 blended(vec4 state, float alpha, vec3 color) {
    float left = state.a * (1.0 - alpha);
    if (PICTURE == PICTURE_MEDIAN) return vec4(state.a > 0.5 ? color : state.rgb, left);
    return vec4(state.rgb + state.a * alpha * color, left);
}

// The number of a pixel, and how much of it is there: expected depth, sum w z / sum w, from the
// colour (z, 1, 0) of the splats; median depth where less than half of the light passes; how many
// splats cover it; or opacity.
vec2 value_of(vec4 pixel) {
    if (PICTURE == PICTURE_DEPTH) {
        return pixel.g > 0.0 ? vec2(pixel.r / pixel.g, pixel.g) : vec2(0.0);
    }
    if (PICTURE == PICTURE_MEDIAN) return pixel.a <= 0.5 ? pixel.rg : vec2(0.0);
    if (PICTURE == PICTURE_COUNT) return vec2(round(log(pixel.a) / log(1.0 - ALPHA_MIN)), 1.0);
    return vec2(1.0 - pixel.a, 1.0);
}
