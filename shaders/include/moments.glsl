// The nine moments that the pixels of a splat add up to, which project/backward.comp turns into
// gradients once a splat. For scores of densification the first two are the absolute gradient of
// the mean by each pixel alone, so that pixels which pull in different directions do not cancel (Ye
// et al. 2024, "AbsGS").
#include "contract/splats.glsl"
layout(constant_id = 15) const bool ABSOLUTE = false;

struct Moments {
    // Sum of w = dL/d log opacity, as if alpha were not clamped at ALPHA_MAX (Kerbl et al. 2023).
    float total;
    vec2 first;   // of w t, w dy, with t = dx + k dy
    vec3 second;  // of w t^2, w t dy, w dy^2
    vec3 color;   // of dL/d colour
};
const Moments NO_MOMENTS = Moments(0.0, vec2(0.0), vec3(0.0), vec3(0.0));

// Those of one pixel. d: from the pixel's centre to the splat's mean.
Moments moments_of(float w, vec2 d, vec3 conic, vec3 d_color) {
    d.x += conic.y * d.y;
    float along = conic.x * d.x;
    vec2 first = ABSOLUTE ? abs(w * vec2(along, along * conic.y + conic.z * d.y)) : w * d;
    return Moments(w, first, w * vec3(d.x * d.x, d.x * d.y, d.y * d.y), d_color);
}

void add(inout Moments m, Moments pixel) {
    m.total += pixel.total;
    m.first += pixel.first;
    m.second += pixel.second;
    m.color += pixel.color;
}

// As they lie in d_splats2d.
float[GRADIENTS] numbers_of(Moments m) {
    return float[](m.total, m.first.x, m.first.y, m.second.x, m.second.y, m.second.z, m.color.r,
                   m.color.g, m.color.b);
}
