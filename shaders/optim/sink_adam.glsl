// <sink> of optim/planes.comp that takes a step of Adam at once, so that gradients of colour never
// reach memory. The step is taken in float32 whatever the moments are stored as: what is rounded
// there is only what the next step finds.
#include "random.glsl"
#include <moments>
#include "optim/adam.glsl"
BUFFER_rates(readonly)
#include <terms>
BUFFER_term_sums(writeonly)
// items_in_all(items), noise_of(...)
#include <working>
#ifndef FILLED_working
uint items_in_all(uint items) { return items; }
// It knows the place within the plane and which plane that is, and no stride: a resumed run may have
// another capacity.
uvec4 noise_of(Plane plane, uint plane_index, uint i, uvec4 item, uint items) {
    return rounding_noise(uvec4(frame.seed, frame.step, i, DRAW_ROUNDING + plane_index));
}
#endif
layout(buffer_reference, scalar, buffer_reference_align = 16) restrict buffer any_value_plane {
    vec4 at[];
};
layout(buffer_reference, scalar, buffer_reference_align = 8) restrict buffer any_moment_plane {
    FOUR_MOMENTS at[];
};

const uint MOST_TERMS = max(PARAMETER_TERMS_END - FIRST_PARAMETER_TERM, 1u);

// Sums over the workgroup of the terms that the plane's quantity has.
shared float term_lines[GROUP];

void store_terms(Plane plane, uint plane_index, float own[MOST_TERMS]) {
    for (uint i = FIRST_PARAMETER_TERM; i < PARAMETER_TERMS_END; ++i) {
        if (!has_term(plane, i)) continue;
        uint t = gl_LocalInvocationID.x;
        term_lines[t] = own[i - FIRST_PARAMETER_TERM];
        for (uint n = LANES; n > 1u;) {
            uint kept = (n + 1u) / 2u;
            barrier();
            if (t + kept < n) term_lines[t] += term_lines[t + kept];
            n = kept;
        }
        uint block = gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y;
        if (t == 0u)
            term_sums[(loss_terms.first[i] + plane.within) * loss_terms.groups + block] =
                term_lines[0];
        barrier();
    }
}

float terms_here[MOST_TERMS];

void begin_sink() {
    for (uint i = 0u; i < MOST_TERMS; ++i) terms_here[i] = 0.0;
}

struct Stored { vec4 value, first, second; };

Stored stored_of(Plane plane, uint i) {
    return Stored(any_value_plane(plane.value).at[i], loaded(any_moment_plane(plane.first).at[i]),
                  loaded(any_moment_plane(plane.second).at[i]));
}

// How far opacities decay in a step: along the derivative of their mean, and at the same rate for
// all, whatever gradients they have (Loshchilov & Hutter 2019, arXiv 1711.05101). Adam would make
// long steps of a term in the loss where gradients are small. Splats that a step does not show
// decay too. Gradients of the photographs that show a splat keep its opacity up, so that few of
// them leave it fainter.
vec4 decay_of(Plane plane, vec4 logit) {
    if (plane.quantity != QUANTITY_logit_opacities || adam_settings.opacity_decay == 0.0)
        return vec4(0.0);
    vec4 opacity = 1.0 / (1.0 + exp(-logit));
    return adam_settings.opacity_decay * opacity * (1.0 - opacity);
}

void take_step(Plane plane, uint plane_index, uint i, uvec4 item, uint items, float rate,
               Stored before, vec4 gradient) {
    vec4 d = d_parameter_terms(plane, before.value, items_in_all(items)) + gradient;
    Stored after = before;
    adam(after.value, after.first, after.second, d, rate);
    after.value -= rate * decay_of(plane, before.value);
    for (uint t = FIRST_PARAMETER_TERM; t < PARAMETER_TERMS_END; ++t)
        if (has_term(plane, t))
            terms_here[t - FIRST_PARAMETER_TERM] +=
                dot(mix(vec4(0.0), term_value(t, before.value), lessThan(item, uvec4(items))),
                    vec4(1.0));
    bvec4 taken = VISIBLE_ONLY ? visible(item, items) : lessThan(item, uvec4(items));
    uvec4 noise = noise_of(plane, plane_index, i, item, items);
    any_value_plane(plane.value).at[i] = mix(before.value, after.value, taken);
    any_moment_plane(plane.first).at[i] = stored(mix(before.first, after.first, taken), noise.xy);
    any_moment_plane(plane.second).at[i] =
        stored(mix(before.second, after.second, taken), noise.zw);
}

// It begins to read what is its own, which comes from farther away, before it requests the
// gradients; and all that is read comes before anything is written.
void sink(Plane plane, uint plane_index, uint i, uvec4 item, uint items) {
    float rate = rates[plane_index];
    if (rate == 0.0) return;  // it rests, moments too
    Stored before = stored_of(plane, i);
    take_step(plane, plane_index, i, item, items, rate, before,
              gradients_of(plane, plane_index, i, item, items));
}

void sink_two(Plane plane, uint plane_index, uint i, uvec4 item, uint k, uvec4 item_k, uint items) {
    float rate = rates[plane_index];
    if (rate == 0.0) return;
    Stored before = stored_of(plane, i), before_k = stored_of(plane, k);
    vec4 gradient = gradients_of(plane, plane_index, i, item, items),
         gradient_k = gradients_of(plane, plane_index, k, item_k, items);
    take_step(plane, plane_index, i, item, items, rate, before, gradient);
    take_step(plane, plane_index, k, item_k, items, rate, before_k, gradient_k);
}

void end_sink(Plane plane, uint plane_index) {
    store_terms(plane, plane_index, terms_here);
}
