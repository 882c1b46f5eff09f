// One quad over the whole target per layer, from gl_VertexIndex alone.
layout(location = 0) out flat uint v_layer;

const vec2 CORNERS[6] =
    vec2[](vec2(-1, -1), vec2(1, -1), vec2(-1, 1), vec2(-1, 1), vec2(1, -1), vec2(1, 1));

void main() {
    v_layer = uint(gl_VertexIndex) / 6u;
    gl_Position = vec4(CORNERS[uint(gl_VertexIndex) % 6u], 0.0, 1.0);
}
