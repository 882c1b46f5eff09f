// One workgroup adds up camera_sums, always in the same order, and makes of them the gradient of
// the camera's intrinsics.
#include "common.glsl"
#include "contract/pose.glsl"
#include "contract/trained.glsl"
layout(local_size_x = GROUP) in;
UNIFORM_planes
VALUE_intrinsics(readonly)
GRADIENT_intrinsics(writeonly)
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_camera_sums(readonly)
#include "loss/sum.glsl"

void main() {
    uint groups = (counts.splats + GROUP - 1u) / GROUP;
    vec3 sum = vec3(0.0);
    for (uint i = gl_LocalInvocationID.x; i < groups; i += GROUP)
        sum += vec3(camera_sums[9u * i + 6u], camera_sums[9u * i + 7u], camera_sums[9u * i + 8u]);
    sum = sum_group(sum);
    if (gl_LocalInvocationID.x > 0u) return;
    vec2 given = camera.focal * exp(-intrinsics(frame.camera).x);
    d_intrinsics(frame.camera) = vec3(sum.x, sum.yz * given);
}
