// <gradient> of optim/planes.comp for splats whose SH coefficients stand beside each other: what the backward passes left, 0 for splats that were not seen.
#include "sh.glsl"
#include "optim/written.glsl"
BUFFER_d_colors(readonly)
BUFFER_directions(readonly)

float d_number(uint number, uint width, uint items) {
    uint g = number / width, within = number % width, band = within / 3u;
    return visible(g, items) && band < (frame.sh_degree + 1u) * (frame.sh_degree + 1u) ? sh_basis_of(band, directions[g]) * d_colors[g][within % 3u] : 0.0;
}

vec4 gradients_of(Plane plane, uint plane_index, uint i, uvec4 item, uint items) {
    if (plane.source == GRADIENT_PLANE) return written_gradients(plane, i, item, items);
    uint first = 4u * i;
    return vec4(d_number(first, plane.width, items), d_number(first + 1u, plane.width, items), d_number(first + 2u, plane.width, items), d_number(first + 3u, plane.width, items));
}
