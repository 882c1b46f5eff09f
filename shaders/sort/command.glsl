// The command that draws n splats, in the shape that the host chose.
#include "contract/sort.glsl"
layout(constant_id = 3) const uint DRAW_VERTICES = 6u;  // a splat

uvec4 draw_command(uint splats) { return uvec4(DRAW_VERTICES * splats, 1u, 0u, 0u); }
