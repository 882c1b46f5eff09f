// The colours again, after the backward draw of depth: what its first colour gets is dL/d depth;
// the moments of the geometry stay where the image's are added to them.
#include "common.glsl"
#include "contract/splats.glsl"
#include "contract/depth.glsl"
layout(local_size_x = GROUP) in;
BUFFER_frame(restrict)
BUFFER_counts(readonly)
BUFFER_seen(readonly)
BUFFER_colors2d(restrict)
BUFFER_d_splats2d(restrict)
BUFFER_kept_colors(readonly)
BUFFER_kept_frame(readonly)
BUFFER_d_depths(writeonly)

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g == 0u) frame.background = kept_frame.background;
    if (g >= counts.splats || seen[g] == 0u) return;
    colors2d[g].rgb = kept_colors[g];
    uint first = GRADIENT_STRIDE * g + 6u;
    d_depths[g] = d_splats2d[first];
    for (uint i = 0u; i < 3u; ++i) d_splats2d[first + i] = 0.0;
}
