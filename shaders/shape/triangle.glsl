// <shape>: one triangle around the ellipse, with a corner on axis 1.
#include "contract/splats.glsl"
vec2 vertex_of(Splat2D s, uint i) { return polygon_corner(s, 3u, i, PI); }
