// One workgroup adds up exposure_sums, always in the same order, and makes of them the gradients of
// the photograph's and the camera's numbers.
#extension GL_EXT_control_flow_attributes : require
#include "contract/exposure.glsl"
#include "contract/trained.glsl"
layout(local_size_x = GROUP) in;
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_exposure_sums(readonly)
#include "ssim.glsl"
#include <exposure>
#include <chain>
#include "photographs/exposure/sum_pairs.glsl"
shared vec2 pairs[SUM_PAIRS];
#include "photographs/exposure/sum_all.glsl"

void main() {
    uvec2 tiles = ssim_tiles(camera.size);
    float sums[EXPOSURE_SUMS];
    [[unroll]] for (uint k = 0u; k < EXPOSURE_SUMS; ++k) sums[k] = 0.0;
    for (uint i = gl_LocalInvocationID.x; i < tiles.x * tiles.y; i += GROUP) [[unroll]]
        for (uint k = 0u; k < OWN_SUMS; ++k) sums[k] += exposure_sums[i * EXPOSURE_SUMS + k];
    sum_all(sums);
    if (gl_LocalInvocationID.x == 0u) chain(exposure_of(), totals);
}
