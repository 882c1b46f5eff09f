// The camera of a step moves by what is trained on the left of the pose that the scene says, p =
// exp(turn) (R x + T + shift).
#include "common.glsl"
#include "contract/core.glsl"
#include "contract/trained.glsl"
layout(local_size_x = 1) in;
UNIFORM_planes
VALUE_turn(readonly)
VALUE_shift(readonly)
BUFFER_frame(readonly)
BUFFER_camera(restrict)
#include "se3.glsl"

void main() {
    mat3 by = turn_matrix(turn(frame.view));
    mat3 R = by * transpose(mat3(camera.world_to_camera[0].xyz, camera.world_to_camera[1].xyz,
                                 camera.world_to_camera[2].xyz));
    vec3 given =
        vec3(camera.world_to_camera[0].w, camera.world_to_camera[1].w, camera.world_to_camera[2].w);
    vec3 T = by * (given + shift(frame.view));
    mat3 rows = transpose(R);
    for (uint i = 0u; i < 3u; ++i) camera.world_to_camera[i] = vec4(rows[i], T[i]);
    camera.position = -(rows * T);
}
