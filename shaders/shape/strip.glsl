// <shape>: the oriented box around the ellipse, four corners in the order of a strip.
#include "contract/splats.glsl"
vec2 vertex_of(Splat2D s, uint i) {
    vec2 axis1, axis2;
    box_axes(s, axis1, axis2);
    vec2 corner = 2.0 * vec2(i & 1u, i >> 1u) - 1.0;
    return s.mean + corner.x * axis1 + corner.y * axis2;
}
