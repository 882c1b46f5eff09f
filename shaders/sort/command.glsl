// The command that draws so many splats, in the shape that the host chose.
#include "contract/sort.glsl"
layout(constant_id = 3) const uint DRAW_VERTICES = 6u;  // a splat
layout(constant_id = 4) const bool DRAW_MESH = false;  // MESH_SPLATS splats a workgroup

uvec4 draw_command(uint splats) {
    return DRAW_MESH ? uvec4(fold((splats + MESH_SPLATS - 1u) / MESH_SPLATS), 0u) : uvec4(DRAW_VERTICES * splats, 1u, 0u, 0u);
}
