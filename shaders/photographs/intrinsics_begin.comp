// The camera of a step has what is trained of it, the logarithm of what both focal lengths are
// multiplied by and the shift of the centre in units of the focal lengths of the scene. So it means
// the same at every size of the photograph.
#include "common.glsl"
#include "contract/core.glsl"
#include "contract/trained.glsl"
layout(local_size_x = 1) in;
UNIFORM_planes
VALUE_intrinsics(readonly)
BUFFER_frame(readonly)
BUFFER_camera(restrict)

void main() {
    vec3 change = intrinsics(frame.camera);
    camera.centre += change.yz * camera.focal;
    camera.focal *= exp(change.x);
}
