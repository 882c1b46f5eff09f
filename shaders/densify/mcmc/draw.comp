// Counts the copies that will be made of every splat.
#include "common.glsl"
#include "contract/refine.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_copies(restrict)
#include "densify/mcmc/source.glsl"

void main() {
    uint place;
    if (fills(group_index() * GROUP + gl_LocalInvocationID.x, place))
        atomicAdd(copies[source(place)], 1u);
}
