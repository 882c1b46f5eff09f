// One workgroup adds up exposure_sums, always in the same order, and makes of them the gradients of the photograph's and the camera's numbers.
#include "contract/exposure.glsl"
#include "contract/trained.glsl"
layout(local_size_x = GROUP) in;
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_exposure_sums(readonly)
#include <exposure>
#include <chain>
#include "loss/sum.glsl"
#include "exposure/share.glsl"

void main() {
    float sums[EXPOSURE_SUMS];
    for (uint k = 0u; k < EXPOSURE_SUMS; ++k) sums[k] = 0.0;
    for (uint k = 0u; k < SUMS; k += 3u) {
        vec3 three = vec3(0.0);
        for (uint i = gl_LocalInvocationID.x; i < sharing_groups(camera.size); i += GROUP)
            for (uint j = 0u; j < 3u; ++j) three[j] += exposure_sums[i * EXPOSURE_SUMS + k + j];
        three = sum_group(three);
        for (uint j = 0u; j < 3u; ++j) sums[k + j] = three[j];
    }
    if (gl_LocalInvocationID.x == 0u) chain(exposure_of(), sums);
}
