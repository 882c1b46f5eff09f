// Numbers of splats that a strategy keeps: in the new order of the splats, next to where they are,
// or back from there.
#include "common.glsl"
#include "contract/refine.glsl"
#include "contract/sort.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const uint NUMBERS = 1u;  // of a splat
layout(constant_id = 1) const bool BACK = false;
BUFFER_counts(readonly)
BUFFER_order(readonly)
BUFFER_followed(restrict)
BUFFER_moved(restrict)

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats) return;
    for (uint c = 0u; c < NUMBERS; ++c) {
        if (BACK)
            followed[NUMBERS * g + c] = moved[NUMBERS * g + c];
        else
            moved[NUMBERS * g + c] = followed[NUMBERS * order[g] + c];
    }
}
