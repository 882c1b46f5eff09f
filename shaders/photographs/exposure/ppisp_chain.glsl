// <chain>: from the sums over pixels to gradients of what is trained.
#include "photographs/exposure/vignette_chain.glsl"
GRADIENT_exposure(writeonly)
GRADIENT_white_balance(writeonly)
GRADIENT_response(writeonly)

void chain(Exposure e, float sums[EXPOSURE_SUMS]) {
    uint photograph = frame.view, number = frame.camera;
    d_exposure(photograph) = sums[0] * e.gain * log(2.0);
    vec4 d_blue_red, d_green_neutral;
    d_balance(e.balance, three(sums, 1u), three(sums, 4u), three(sums, 7u), d_blue_red,
              d_green_neutral);
    d_white_balance(0u, photograph) = d_blue_red;
    d_white_balance(1u, photograph) = d_green_neutral;
    chain_vignette(sums, 10u, number);
    vec3 d_toe = vec3(0.0), d_shoulder = vec3(0.0), d_gamma = vec3(0.0), d_middle = vec3(0.0);
    if (RESPONDS) {
        d_toe = three(sums, 25u), d_shoulder = three(sums, 28u), d_gamma = three(sums, 31u),
        d_middle = three(sums, 34u);
        d_response_of(e.response, d_toe, d_shoulder, d_gamma, d_middle);
    }
    d_response(0u, number) = to_own_and_shared(d_toe);
    d_response(1u, number) = to_own_and_shared(d_shoulder);
    d_response(2u, number) = to_own_and_shared(d_gamma);
    d_response(3u, number) = to_own_and_shared(d_middle);
}
