// Rows to fill become copies of what was drawn for them, without momentum: a dead splat's own
// belongs to where it was.
#include "common.glsl"
#include "contract/refine.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
#include "densify/mcmc/source.glsl"
#include "densify/planes.glsl"

void main() {
    uint place;
    if (!fills(group_index() * GROUP + gl_LocalInvocationID.x, place)) return;
    copy_values(source(place), place);
    zero_moments(place);
}
