// <shape>: the oriented box around the ellipse, two triangles.
#include "contract/splats.glsl"
const vec2 CORNERS[6] = vec2[](vec2(-1, -1), vec2(1, -1), vec2(-1, 1), vec2(-1, 1), vec2(1, -1), vec2(1, 1));

vec2 vertex_of(Splat2D s, uint i) {
    vec2 axis1, axis2;
    box_axes(s, axis1, axis2);
    return s.mean + CORNERS[i].x * axis1 + CORNERS[i].y * axis2;
}
