// <shape>: a hexagon around the ellipse as a triangle and the three at its sides.
const uint CORNERS[12] = uint[](0, 2, 4, 0, 1, 2, 2, 3, 4, 4, 5, 0);

vec2 vertex_of(Splat2D s, uint i) { return polygon_corner(s, 6u, CORNERS[i], PI / 6.0); }
