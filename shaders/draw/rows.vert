// Two triangles over the canvases of depth segments BEGIN to END.
layout(constant_id = 0) const uint BEGIN = 0u;
layout(constant_id = 1) const uint END = 1u;
#include "draw/segments.glsl"

void main() {
    vec2 corner = vec2[](vec2(0, 0), vec2(1, 0), vec2(0, 1), vec2(0, 1), vec2(1, 0), vec2(1, 1))[gl_VertexIndex];
    float y = mix(float(BEGIN), float(END), corner.y) / float(SEGMENTS);
    gl_Position = vec4(corner.x * 2.0 - 1.0, y * 2.0 - 1.0, 0.0, 1.0);
}
