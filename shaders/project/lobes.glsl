// <lobes> of project/forward.comp: what the lobes of a splat add to its colour.
#include "lobes.glsl"
VALUE_lobe_colors(readonly)
VALUE_lobe_axes(readonly)

vec3 color_of_lobes(uint g, vec3 n) {
    return lobe_value(lobe_axes(0u, g), n) * lobe_colors(0u, g) +
           lobe_value(lobe_axes(1u, g), n) * lobe_colors(1u, g);
}
