// Vignetting of a camera, channel by channel: what is left of the light at a radius r from its
// centre, 1 + a r^2 + b r^4 + c r^6 within 0..1 (PPISP). Of each number the fourth is shared by
// red, green and blue, which add their own.
VALUE_vignette_centre(readonly)
VALUE_vignette_falloff(readonly)

const uint VIGNETTE_SUMS = 15u;  // centre: x, y; coefficients: 3
struct Vignette {
    // X and y of red, green and blue, from the middle of the image, in units of its longer side.
    mat2x3 centre;
    mat3 falloff;   // coefficients of r^2, r^4, r^6
};

vec3 own_and_shared(vec4 q) { return q.rgb + q.a; }

Vignette vignette_of(uint number) {
    Vignette v;
    for (uint i = 0u; i < 2u; ++i) v.centre[i] = own_and_shared(vignette_centre(i, number));
    for (uint i = 0u; i < 3u; ++i) v.falloff[i] = own_and_shared(vignette_falloff(i, number));
    return v;
}

vec3 squared_radius(Vignette v, vec2 at) {
    return (at.x - v.centre[0]) * (at.x - v.centre[0]) +
           (at.y - v.centre[1]) * (at.y - v.centre[1]);
}
vec3 falloff_at(Vignette v, vec3 r2) {
    return 1.0 + r2 * (v.falloff[0] + r2 * (v.falloff[1] + r2 * v.falloff[2]));
}

// at: from the middle of the image, in units of its longer side.
vec3 left_of_light(Vignette v, vec2 at) { return clamped(falloff_at(v, squared_radius(v, at))); }

void add(inout float sums[EXPOSURE_SUMS], uint first, vec3 d) {
    for (uint i = 0u; i < 3u; ++i) sums[first + i] += d[i];
}

// d: by what left_of_light returns. Adds the gradients of the centre and the coefficients to
// sums[first], ...
void d_left_of_light(Vignette v, vec2 at, vec3 d, inout float sums[EXPOSURE_SUMS], uint first) {
    vec3 r2 = squared_radius(v, at), d_falloff = d_clamped(falloff_at(v, r2), d);
    vec3 d_r2 = d_falloff * (v.falloff[0] + r2 * (2.0 * v.falloff[1] + r2 * 3.0 * v.falloff[2]));
    add(sums, first, d_r2 * -2.0 * (at.x - v.centre[0]));
    add(sums, first + 3u, d_r2 * -2.0 * (at.y - v.centre[1]));
    add(sums, first + 6u, d_falloff * r2);
    add(sums, first + 9u, d_falloff * r2 * r2);
    add(sums, first + 12u, d_falloff * r2 * r2 * r2);
}
