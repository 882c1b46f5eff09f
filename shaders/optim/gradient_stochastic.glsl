// <gradient> of optim/planes.comp: the estimate sign / (2 step) times what the splat's pixels lost
// more with the signs than against them, over all pairs.
#include "contract/stochastic.glsl"
#include "perturbation.glsl"
layout(constant_id = 18) const uint PAIRS = 1u;
BUFFER_mean_steps(readonly)
BUFFER_splat_differences(readonly)

float estimate_of(Plane plane, uint plane_index, uint g, uint number) {
    float step = plane_index == PLANE_means ? mean_steps[g] : plane.perturbation, sum = 0.0;
    if (step == 0.0) return 0.0;  // it was not perturbed
    for (uint pair = 0u; pair < PAIRS; ++pair)
        sum += splat_differences[pair * counts.capacity + g] *
               sign_of(sign_bits(pair, g), plane.number + number);
    return sum / (2.0 * float(PAIRS) * step);
}

bool stand_already(Plane plane, uvec4 item, uint items) { return false; }

void begin_gradients(Plane plane, uint first_item, uint items) {}

// Of numbers 4 i to 4 i + 3 of a plane, which belong to `item`.
vec4 gradients_of(Plane plane, uint plane_index, uint i, uvec4 item, uint items) {
    bvec4 seen_ones = visible(item, items);
    vec4 d = vec4(0.0);
    if (!in_use(plane)) return d;
    for (uint c = 0u; c < 4u; ++c)
        if (seen_ones[c])
            d[c] = estimate_of(plane, plane_index, item[c], 4u * i + c - plane.width * item[c]);
    return d;
}
