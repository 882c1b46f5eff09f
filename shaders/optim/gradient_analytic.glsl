// <gradient> of optim/planes.comp for splats: what the backward passes left, 0 for splats that were
// not seen.
#include "sh.glsl"
#include "optim/written.glsl"
BUFFER_d_colors(readonly)
BUFFER_directions(readonly)

vec3 d_sh(uint band, uint g, uint items) {
    return visible(g, items) ? sh_basis_of(band, directions[g]) * d_colors[g] : vec3(0.0);
}

void begin_gradients(Plane plane, uint first_item, uint items) {}

vec4 gradients_of(Plane plane, uint plane_index, uint i, uvec4 item, uint items) {
    if (plane.source == GRADIENT_NONE || !in_use(plane)) return vec4(0.0);
    if (plane.source == GRADIENT_PLANE) return written_gradients(plane, i, item, items);
    vec3 a = d_sh(plane.band, item.x, items), b = d_sh(plane.band, item.w, items);
    uint before = 4u * i - 3u * item.x;  // numbers of the first item before the first of the four
    return before == 0u ? vec4(a, b.x) : before == 1u ? vec4(a.yz, b.xy) : vec4(a.z, b);
}
