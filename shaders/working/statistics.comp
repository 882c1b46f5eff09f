// Numbers of splats that a strategy keeps: those of the working set, from the model or back to it.
#include "common.glsl"
#include "contract/refine.glsl"
#include "contract/working.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const bool BACK = false;
layout(constant_id = 1) const uint NUMBERS = 1u;  // of a splat
BUFFER_counts(readonly)
BUFFER_working(readonly)
BUFFER_followed(restrict)  // of the working set
BUFFER_moved(restrict)     // of the model

void main() {
    uint w = group_index() * GROUP + gl_LocalInvocationID.x;
    if (w >= counts.splats) return;
    uint g = working[w];
    for (uint c = 0u; c < NUMBERS; ++c) {
        if (BACK) moved[NUMBERS * g + c] = followed[NUMBERS * w + c];
        else followed[NUMBERS * w + c] = moved[NUMBERS * g + c];
    }
}
