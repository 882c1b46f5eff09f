// <shape>: the axis-aligned box around the ellipse, as the triangle whose bounding box it is.
#include "contract/splats.glsl"
const vec2 CORNERS[3] = vec2[](vec2(-1, -1), vec2(1, -1), vec2(-1, 1));

vec2 vertex_of(Splat2D s, uint i) {
    vec2 corner = s.mean + CORNERS[i] * vec2(support(s, vec2(1, 0)), support(s, vec2(0, 1)));
    return vec2(corner.x, clamp(corner.y, 0.0, float(CANVAS_HEIGHT)));  // not onto the canvas of another segment
}
