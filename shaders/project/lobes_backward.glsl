// <lobes> of project/backward.comp: d_color -> gradients of the lobes and of the direction of view.
#include "lobes.glsl"
VALUE_lobe_colors(readonly)
VALUE_lobe_axes(readonly)
GRADIENT_lobe_colors(writeonly)
GRADIENT_lobe_axes(writeonly)

Lobes lobes_of(uint g) {
    return Lobes(Lobe[](Lobe(lobe_colors(0u, g), lobe_axes(0u, g)),
                        Lobe(lobe_colors(1u, g), lobe_axes(1u, g))));
}

vec3 differentiate_lobes(uint g, Lobes lobes, vec3 n, vec3 d_color) {
    vec3 d_n = vec3(0.0);
    for (uint k = 0u; k < 2u; ++k) {
        Lobe lobe = lobes.of[k];
        float value = lobe_value(lobe.axis, n), d_log = value * dot(lobe.color, d_color);
        d_lobe_colors(k, g) = value * d_color;
        d_lobe_axes(k, g) = d_log * d_log_lobe(lobe.axis, n);
        d_n += d_log * length(lobe.axis) * lobe.axis;
    }
    return d_n;
}
