// The photograph of the step, from host memory. What it takes is the way to there and back, so
// every thread has several words on their way at once, and it runs beside a pass that waits for
// other things. Floor: the bytes of a photograph by those a second of the bus.
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "contract/loss.glsl"
#include "contract/train.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 9) const uint PHOTO_BYTES = 4u;  // of a pixel, as in loss/pixel.glsl
BUFFER_schedule(readonly)
BUFFER_frame(readonly)
BUFFER_camera(readonly)
BUFFER_photographs(readonly)
BUFFER_photos(writeonly)

const uint EACH = 4u;  // words of a thread at a time

void main() {
    uint first = schedule[frame.step % HISTORY].y / 4u * PHOTO_BYTES,
         words = (camera.size.x * camera.size.y * PHOTO_BYTES + 3u) / 4u;
    uint threads = gl_NumWorkGroups.x * GROUP;
    for (uint start = gl_GlobalInvocationID.x; start < words; start += EACH * threads) {
        uint values[EACH];
        [[unroll]] for (uint k = 0u; k < EACH; ++k)
            values[k] = photographs[first + min(start + k * threads, words - 1u)];
        [[unroll]] for (uint k = 0u; k < EACH; ++k)
            if (start + k * threads < words) photos[start + k * threads] = values[k];
    }
}
