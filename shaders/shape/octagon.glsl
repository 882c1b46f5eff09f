// <shape>: an octagon around the ellipse as a square and the four triangles at its sides. Where both half axes are shorter than SMALL px these
// have no area and the square is the oriented box: too little to save for the fragments that diagonals cost.
#include "contract/splats.glsl"
layout(constant_id = 7) const float SMALL = 0.0;
const uint CORNERS[18] = uint[](0, 2, 4, 4, 6, 0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 0);

vec2 vertex_of(Splat2D s, uint i) {
    bool small = max(length(s.axis1), length(s.axis2)) < SMALL;
    return small ? polygon_corner(s, 4u, CORNERS[i] / 2u, 0.0) : polygon_corner(s, 8u, CORNERS[i], PI / 8.0);
}
