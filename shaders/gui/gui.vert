// The interface of the window: triangles of Dear ImGui, pulled from buffers.
#include "contract/view.glsl"
BUFFER_window_shown(readonly)
BUFFER_gui_vertices(readonly)
BUFFER_gui_corners(readonly)
BUFFER_gui_commands(readonly)
layout(location = 0) out vec2 v_uv;
layout(location = 1) out vec4 v_color;
layout(location = 2) flat out uint v_command;

void main() {
    uvec2 corner = gui_corners[gl_VertexIndex];
    GuiVertex vertex = gui_vertices[corner.x];
    vec4 part = gui_commands[corner.y].part;
    gl_Position = vec4(2.0 * vertex.at / vec2(window_shown.size) - 1.0, 0.0, 1.0);
    v_uv = vertex.uv * part.xy + part.zw;
    v_color = unpackUnorm4x8(vertex.color);
    v_command = corner.y;
}
