// Where the vertices of a splat's proxy geometry lie. SHAPE is numbered as in
// app/hardsplat/tables/hardware.py.
#include "contract/splats.glsl"
layout(constant_id = 22) const uint SHAPE = 0u;
const uint BOX = 0u, QUAD = 1u, TRIANGLE = 2u, STRIP = 3u;
const vec2 CORNERS[6] = vec2[](
    vec2(-1, -1), vec2(1, -1), vec2(-1, 1), vec2(-1, 1), vec2(1, -1), vec2(1, 1));

// The axis-aligned box around the ellipse, as the triangle whose bounding box it is.
vec2 box_corner(Splat2D s, uint i) {
    vec2 corner = s.mean + CORNERS[i] * vec2(support(s, vec2(1, 0)), support(s, vec2(0, 1)));
    // Not onto the canvas of another segment.
    return vec2(corner.x, clamp(corner.y, 0.0, float(CANVAS_HEIGHT)));
}

// The oriented box around the ellipse: two triangles, or four corners in the order of a strip.
vec2 quad_corner(Splat2D s, vec2 corner) {
    vec2 axis1, axis2;
    box_axes(s, axis1, axis2);
    return s.mean + corner.x * axis1 + corner.y * axis2;
}

vec2 vertex_of(Splat2D s, uint i) {
    if (SHAPE == BOX) return box_corner(s, i);
    if (SHAPE == TRIANGLE) return polygon_corner(s, 3u, i, PI);  // with a corner on axis 1
    return quad_corner(s, SHAPE == STRIP ? 2.0 * vec2(i & 1u, i >> 1u) - 1.0 : CORNERS[i]);
}
