// The ID and UV buffer.
layout(location = 0) in vec3 v_uv_depth;
layout(location = 1) flat in float v_id;
layout(location = 0) out vec4 id;

void main() { id = vec4(v_uv_depth, v_id); }
