// A corner of a triangle, its vertex moved by DIRECTION times its perturbation.
#include "contract/mesh.glsl"
#include "mesh.glsl"
BUFFER_camera(readonly)
BUFFER_vertices(readonly)
BUFFER_uvs(readonly)
BUFFER_corners(readonly)
layout(constant_id = 0) const int DIRECTION = 0;
layout(constant_id = 1) const uint CANVAS_WIDTH = 1u;
layout(constant_id = 2) const uint CANVAS_HEIGHT = 1u;
layout(location = 0) out vec3 v_uv_depth;
layout(location = 1) flat out float v_id;

void main() {
    uvec2 corner = corners[gl_VertexIndex];
    vec3 at = vertices[corner.x];
    if (DIRECTION != 0)
        at += float(DIRECTION) * mesh.vertex_step * share_left() * vertex_signs(corner.x);
    vec3 p = vec3(dot(camera.world_to_camera[0], vec4(at, 1.0)),
                  dot(camera.world_to_camera[1], vec4(at, 1.0)),
                  dot(camera.world_to_camera[2], vec4(at, 1.0)));
    vec2 pixel = camera.focal * p.xy + camera.centre * p.z;  // times depth
    gl_Position =
        vec4(2.0 * pixel / vec2(CANVAS_WIDTH, CANVAS_HEIGHT) - p.z, frame.near_plane, p.z);
    v_uv_depth = vec3(uvs[corner.y], p.z);
    v_id = float(gl_VertexIndex / 3 + 1);
}
