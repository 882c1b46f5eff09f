// <sink> of optim/planes.comp that takes a step of Adam at once, so that gradients of colour never reach memory. The step is taken in float32 whatever the
// moments are stored as: what is rounded there is only what the next step finds.
#include "random.glsl"
#include <moments>
#include "optim/adam.glsl"
BUFFER_rates(readonly)
#include <terms>
BUFFER_term_sums(writeonly)
layout(buffer_reference, scalar, buffer_reference_align = 16) restrict buffer any_value_plane { vec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) restrict buffer any_moment_plane { FOUR_MOMENTS at[]; };

const uint MOST_TERMS = max(PARAMETER_TERMS_END - FIRST_PARAMETER_TERM, 1u);

// Sums over the workgroup of the terms that the plane's quantity has.
shared float term_lines[GROUP];

void store_terms(Plane plane, uint plane_index, float own[MOST_TERMS]) {
    for (uint i = FIRST_PARAMETER_TERM; i < PARAMETER_TERMS_END; ++i) {
        if (!has_term(plane, i)) continue;
        uint t = gl_LocalInvocationID.x;
        term_lines[t] = own[i - FIRST_PARAMETER_TERM];
        if (t + LANES < GROUP) term_lines[t + LANES] = 0.0;
        for (uint half_size = GROUP / 2u; half_size > 0u; half_size >>= 1u) {
            barrier();
            if (t < half_size) term_lines[t] += term_lines[t + half_size];
        }
        uint block = gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y;
        if (t == 0u) term_sums[(loss_terms.first[i] + plane.within) * loss_terms.groups + block] = term_lines[0];
        barrier();
    }
}

float terms_here[MOST_TERMS];

void begin_sink() {
    for (uint i = 0u; i < MOST_TERMS; ++i) terms_here[i] = 0.0;
}

void sink(Plane plane, uint plane_index, uint i, uvec4 item, uint items) {
    float rate = rates[plane_index];
    if (rate == 0.0) return;  // it rests, moments too
    any_value_plane values = any_value_plane(plane.value);
    any_moment_plane first = any_moment_plane(plane.first), second = any_moment_plane(plane.second);
    // It begins to read what is its own, which comes from farther away, before it asks for the gradient.
    vec4 p0 = values.at[i], m0 = loaded(first.at[i]), v0 = loaded(second.at[i]);
    vec4 d = gradients_of(plane, plane_index, i, item, items) + d_parameter_terms(plane, p0, items);
    vec4 p = p0, m = m0, v = v0;
    adam(p, m, v, d, rate);
    for (uint t = FIRST_PARAMETER_TERM; t < PARAMETER_TERMS_END; ++t)
        if (has_term(plane, t)) terms_here[t - FIRST_PARAMETER_TERM] += dot(mix(vec4(0.0), term_value(t, p0), lessThan(item, uvec4(items))), vec4(1.0));
    bvec4 taken = VISIBLE_ONLY ? visible(item, items) : lessThan(item, uvec4(items));
    // The noise of rounding knows the place within the plane and which plane that is, and no stride: a resumed run may have another capacity.
    uvec4 noise = rounding_noise(uvec4(frame.seed, frame.step, i, DRAW_ROUNDING + plane_index));
    values.at[i] = mix(p0, p, taken);
    first.at[i] = stored(mix(m0, m, taken), noise.xy);
    second.at[i] = stored(mix(v0, v, taken), noise.zw);
}

void end_sink(Plane plane, uint plane_index) { store_terms(plane, plane_index, terms_here); }
