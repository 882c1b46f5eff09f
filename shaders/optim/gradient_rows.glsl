// <gradient> of optim/planes.comp for splats whose SH coefficients are contiguous: what the
// backward passes left, 0 for splats that were not seen.
#include "sh.glsl"
#include "optim/written.glsl"
BUFFER_d_colors(readonly)
BUFFER_directions(readonly)

layout(constant_id = 2) const uint SH_PLANES = 16u;  // at least as many as a plane has coefficients
// Numbers a splat, an odd one, so that lanes write to different banks.
const uint BASIS = SH_PLANES | 1u;
shared float basis[BASIS * GROUP];
shared vec3 colors[GROUP];

// The basis and dL/d color of every splat of the workgroup.
void begin_gradients(Plane plane, uint first_item, uint items) {
    if (plane.source != GRADIENT_SH) return;
    uint bands = min(plane.width / 3u, (frame.sh_degree + 1u) * (frame.sh_degree + 1u));
    for (uint t = gl_LocalInvocationID.x; t < GROUP; t += LANES) {
        bool seen_one = visible(first_item + t, items);
        colors[t] = seen_one ? d_colors[first_item + t] : vec3(0.0);
        if (seen_one) {
            vec3 n = directions[first_item + t];
            [[unroll]] for (uint k = 0u; k < SH_PLANES; ++k)
                basis[BASIS * t + k] = k < bands ? sh_basis_of(k, n) : 0.0;
        } else {
            [[unroll]] for (uint k = 0u; k < SH_PLANES; ++k) basis[BASIS * t + k] = 0.0;
        }
    }
    barrier();
}

vec4 gradients_of(Plane plane, uint plane_index, uint i, uvec4 item, uint items) {
    if (plane.source == GRADIENT_PLANE) return written_gradients(plane, i, item, items);
    uint g = 4u * i / plane.width, within = 4u * i - g * plane.width;
    vec4 d;
    g %= GROUP;  // workgroups begin at multiples of it
    for (uint c = 0u; c < 4u; ++c) {
        d[c] = basis[BASIS * g + within / 3u] * colors[g][within % 3u];
        if (++within == plane.width) {
            within = 0u;
            ++g;
        }
    }
    return d;
}
