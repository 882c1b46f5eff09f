// <exposure>: how a camera makes a photograph (PPISP, arXiv 2601.18336): exposure, vignetting, white balance, response. Exposure and white balance are the
// photograph's, the others its camera's. With all numbers 0 the image stays as it is.
UNIFORM_planes
VALUE_exposure(readonly)
VALUE_white_balance(readonly)
VALUE_vignette_centre(readonly)
VALUE_vignette_falloff(readonly)
VALUE_response(readonly)
#include "exposure/clamped.glsl"
#include "exposure/white_balance.glsl"
#include "exposure/response.glsl"

const uint SUMS = 37u;  // gain; targets: X, Y, lambda; centre: x, y; falloff: 3; response: toe, shoulder, gamma, middle
struct Exposure {
    float gain;
    Balance balance;
    mat2x3 centre;   // x and y of red, green and blue, from the middle of the image, in units of its longer side
    mat3 falloff;    // coefficients of r^2, r^4, r^6
    Response response;
};

vec3 own_and_shared(vec4 q) { return q.rgb + q.a; }

Exposure exposure_of() {
    Exposure e;
    uint photograph = frame.view, number = frame.camera;
    e.gain = exp2(exposure(photograph));
    e.balance = balance_of(white_balance(0u, photograph), white_balance(1u, photograph));
    for (uint i = 0u; i < 2u; ++i) e.centre[i] = own_and_shared(vignette_centre(i, number));
    for (uint i = 0u; i < 3u; ++i) e.falloff[i] = own_and_shared(vignette_falloff(i, number));
    e.response = response_of(own_and_shared(response(0u, number)), own_and_shared(response(1u, number)), own_and_shared(response(2u, number)),
                             own_and_shared(response(3u, number)));
    return e;
}

vec3 squared_radius(Exposure e, vec2 at) { return (at.x - e.centre[0]) * (at.x - e.centre[0]) + (at.y - e.centre[1]) * (at.y - e.centre[1]); }
vec3 falloff_at(Exposure e, vec3 r2) { return 1.0 + r2 * (e.falloff[0] + r2 * (e.falloff[1] + r2 * e.falloff[2])); }

// at: from the middle of the image, in units of its longer side.
vec3 exposed_of(Exposure e, vec3 x, vec2 at) {
    vec3 lit = x * e.gain * clamped(falloff_at(e, squared_radius(e, at)));
    return responded(e.response, clamped(balanced(e.balance, lit)));
}

void add(inout float sums[EXPOSURE_SUMS], uint first, vec3 d) {
    for (uint i = 0u; i < 3u; ++i) sums[first + i] += d[i];
}

// d: by what exposed_of returns. Returns the gradient by x and adds those of the parameters.
vec3 d_exposed_of(Exposure e, vec3 x, vec2 at, vec3 d, inout float sums[EXPOSURE_SUMS]) {
    vec3 r2 = squared_radius(e, at), falloff = falloff_at(e, r2), through = clamped(falloff), bright = x * e.gain, lit = bright * through;
    vec3 mixed = balanced(e.balance, lit), d_toe, d_shoulder, d_gamma, d_middle, d_x, d_y, d_lambda;
    d = d_responded(e.response, clamped(mixed), d, d_toe, d_shoulder, d_gamma, d_middle);
    d = d_balanced(e.balance, lit, d_clamped(mixed, d), d_x, d_y, d_lambda);
    vec3 d_falloff = d_clamped(falloff, d * bright), d_bright = d * through;
    vec3 d_r2 = d_falloff * (e.falloff[0] + r2 * (2.0 * e.falloff[1] + r2 * 3.0 * e.falloff[2]));
    sums[0] += dot(d_bright, x);
    add(sums, 1u, d_x);
    add(sums, 4u, d_y);
    add(sums, 7u, d_lambda);
    add(sums, 10u, d_r2 * -2.0 * (at.x - e.centre[0]));
    add(sums, 13u, d_r2 * -2.0 * (at.y - e.centre[1]));
    add(sums, 16u, d_falloff * r2);
    add(sums, 19u, d_falloff * r2 * r2);
    add(sums, 22u, d_falloff * r2 * r2 * r2);
    add(sums, 25u, d_toe);
    add(sums, 28u, d_shoulder);
    add(sums, 31u, d_gamma);
    add(sums, 34u, d_middle);
    return d_bright * e.gain;
}
