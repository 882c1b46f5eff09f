// <sink> of optim/planes.comp that takes a step of Adam at once, so that gradients of colour never reach memory. The step is taken in float32 whatever the
// moments are stored as: what is rounded there is only what the next step finds.
#include "random.glsl"
#include <moments>
#include "optim/adam.glsl"
BUFFER_rates(readonly)
BUFFER_term_settings(readonly)
layout(buffer_reference, scalar, buffer_reference_align = 16) restrict buffer any_value_plane { vec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) restrict buffer any_moment_plane { FOUR_MOMENTS at[]; };

vec4 slope(vec4 logit) {  // o (1 - o), even in the logit
    vec4 e = exp(-abs(logit));
    return e / ((1.0 + e) * (1.0 + e));
}

// The loss gains opacity_reg * mean opacity + scale_reg * mean scale (Kheradmand et al. 2024), over all splats, seen or not.
// The branches keep an infinite scale from turning a weight of 0 into a gradient that is no number.
vec4 d_terms(Plane plane, vec4 p, uint items) {
    if (plane.quantity == QUANTITY_log_scales && term_settings.scale_reg > 0.0) return term_settings.scale_reg / (float(plane.width) * float(items)) * exp(p);
    if (plane.quantity == QUANTITY_logit_opacities && term_settings.opacity_reg > 0.0) return term_settings.opacity_reg / float(items) * slope(p);
    return vec4(0.0);
}

void sink(Plane plane, uint plane_index, uint i, uvec4 item, uint items) {
    float rate = rates[plane_index];
    if (rate == 0.0) return;  // it rests, moments too
    any_value_plane values = any_value_plane(plane.value);
    any_moment_plane first = any_moment_plane(plane.first), second = any_moment_plane(plane.second);
    // It begins to read what is its own, which comes from farther away, before it asks for the gradient.
    vec4 p0 = values.at[i], m0 = loaded(first.at[i]), v0 = loaded(second.at[i]);
    vec4 d = gradients_of(plane, plane_index, i, item, items) + d_terms(plane, p0, items);
    vec4 p = p0, m = m0, v = v0;
    adam(p, m, v, d, rate);
    bvec4 taken = VISIBLE_ONLY ? visible(item, items) : lessThan(item, uvec4(items));
    // The noise of rounding knows the place within the plane and which plane that is, and no stride: a resumed run may have another capacity.
    uvec4 noise = rounding_noise(uvec4(frame.seed, frame.step, i, DRAW_ROUNDING + plane_index));
    values.at[i] = mix(p0, p, taken);
    first.at[i] = stored(mix(m0, m, taken), noise.xy);
    second.at[i] = stored(mix(v0, v, taken), noise.zw);
}
