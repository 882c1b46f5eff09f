// <exposure>: how a camera makes a photograph (PPISP, arXiv 2601.18336): exposure, vignetting,
// white balance, response. Exposure and white balance are the photograph's, the others its
// camera's. With all numbers 0 the image stays as it is. There are several cameras: the response of
// the only one is what photographs have in common, which is the scene's.
layout(constant_id = 1) const bool RESPONDS = true;
UNIFORM_planes
VALUE_exposure(readonly)
VALUE_white_balance(readonly)
VALUE_response(readonly)
#include "photographs/exposure/clamped.glsl"
#include "photographs/exposure/vignette.glsl"
#include "photographs/exposure/white_balance.glsl"
#include "photographs/exposure/response.glsl"

// Gain; targets: X, Y, lambda; vignetting; response: toe, shoulder, gamma, middle.
const uint OWN_SUMS = RESPONDS ? 37u : 25u;
struct Exposure {
    float gain;
    Balance balance;
    Vignette vignette;
    Response response;
};

Exposure exposure_of() {
    Exposure e;
    uint photograph = frame.view, number = frame.camera;
    e.gain = exp2(exposure(photograph));
    e.balance = balance_of(white_balance(0u, photograph), white_balance(1u, photograph));
    e.vignette = vignette_of(number);
    if (RESPONDS)
        e.response =
            response_of(own_and_shared(response(0u, number)), own_and_shared(response(1u, number)),
                        own_and_shared(response(2u, number)), own_and_shared(response(3u, number)));
    return e;
}

// at: from the middle of the image, in units of its longer side.
vec3 exposed_of(Exposure e, vec3 x, vec2 at) {
    vec3 mixed = clamped(balanced(e.balance, x * e.gain * left_of_light(e.vignette, at)));
    return RESPONDS ? responded(e.response, mixed) : mixed;
}

// d: by what exposed_of returns. Returns the gradient by x and adds those of the parameters.
vec3 d_exposed_of(Exposure e, vec3 x, vec2 at, vec3 d, inout float sums[EXPOSURE_SUMS]) {
    vec3 left = left_of_light(e.vignette, at), bright = x * e.gain, lit = bright * left;
    vec3 mixed = balanced(e.balance, lit), d_x, d_y, d_lambda;
    if (RESPONDS) {
        vec3 d_toe, d_shoulder, d_gamma, d_middle;
        d = d_responded(e.response, clamped(mixed), d, d_toe, d_shoulder, d_gamma, d_middle);
        add(sums, 25u, d_toe);
        add(sums, 28u, d_shoulder);
        add(sums, 31u, d_gamma);
        add(sums, 34u, d_middle);
    }
    d = d_balanced(e.balance, lit, d_clamped(mixed, d), d_x, d_y, d_lambda);
    vec3 d_bright = d * left;
    sums[0] += dot(d_bright, x);
    add(sums, 1u, d_x);
    add(sums, 4u, d_y);
    add(sums, 7u, d_lambda);
    d_left_of_light(e.vignette, at, d * bright, sums, 10u);
    return d_bright * e.gain;
}
