// A backward draw of a gradient of 1 leaves each splat's T alpha, summed over the pixels, where its
// colour has its gradient -> shares; d_splats2d is clean again for the next view.
#include "common.glsl"
#include "contract/splats.glsl"

layout(local_size_x = GROUP) in;
// The view is one between photographs; else a photograph's.
layout(constant_id = 0) const bool BETWEEN = true;
BUFFER_counts(readonly)
BUFFER_seen(readonly)
BUFFER_d_splats2d(restrict)
BUFFER_shares(restrict)

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats || seen[g] == 0u) return;
    float share = d_splats2d[GRADIENT_STRIDE * g + 6u];
    for (uint i = 0u; i < GRADIENTS; ++i) d_splats2d[GRADIENT_STRIDE * g + i] = 0.0;
    if (BETWEEN)
        shares[g].y = max(shares[g].y, share);
    else
        shares[g].x += share;
}
