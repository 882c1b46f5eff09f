// Flags the splats whose tickets win, or with THINS those that live on.
#include "common.glsl"
#include "contract/refine.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const bool THINS = false;
BUFFER_counts(readonly)
BUFFER_tickets(readonly)
BUFFER_admitted(readonly)
#include "densify/mark.glsl"

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    mark(g, counts.splats, g < counts.splats && (tickets[g] < admitted[0]) != THINS);
}
