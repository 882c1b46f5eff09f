// One workgroup adds up camera_sums, always in the same order, and makes of them the gradient of
// the photograph's pose. With p = exp(turn) (R x + T + shift) and u = dL/dp summed, dL/d shift =
// exp(turn)^T u; dL/d turn = J^T (the torque in the camera's frame).
#include "common.glsl"
#include "contract/pose.glsl"
#include "contract/trained.glsl"
layout(local_size_x = GROUP) in;
UNIFORM_planes
VALUE_turn(readonly)
GRADIENT_turn(writeonly)
GRADIENT_shift(writeonly)
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_camera_sums(readonly)
#include "se3.glsl"
#include "loss/sum.glsl"

void main() {
    uint groups = (counts.splats + GROUP - 1u) / GROUP;
    vec3 force = vec3(0.0), torque = vec3(0.0);
    for (uint i = gl_LocalInvocationID.x; i < groups; i += GROUP) {
        force += vec3(camera_sums[9u * i], camera_sums[9u * i + 1u], camera_sums[9u * i + 2u]);
        torque +=
            vec3(camera_sums[9u * i + 3u], camera_sums[9u * i + 4u], camera_sums[9u * i + 5u]);
    }
    force = sum_group(force);
    torque = sum_group(torque);
    if (gl_LocalInvocationID.x > 0u) return;
    mat3 W = transpose(mat3(camera.world_to_camera[0].xyz, camera.world_to_camera[1].xyz,
                            camera.world_to_camera[2].xyz));
    vec3 w = turn(frame.view);
    d_shift(frame.view) = transpose(turn_matrix(w)) * (W * force);
    d_turn(frame.view) = transpose(left_jacobian(w)) * (W * torque);
}
