// Visible splats in order of depth, packed as for tiles, so that a rank leads to a splat's numbers.
#include "common.glsl"
#include "contract/sort.glsl"
#include "contract/tiles.glsl"
layout(local_size_x = GROUP) in;
layout(constant_id = 1) const float LARGEST = 1.0;  // colour that the target can hold
BUFFER_counts(readonly)
BUFFER_order(readonly)
BUFFER_splats2d(readonly)
BUFFER_colors2d(readonly)
BUFFER_tile_splats(writeonly)
BUFFER_tile_reaches(writeonly)
#include "tiled/packed.glsl"

void main() {
    uint rank = group_index() * GROUP + gl_LocalInvocationID.x;
    if (rank >= counts.visible) return;
    uint splat = order[rank];
    Splat2D s = splats2d[splat];
    vec4 color = min(colors2d[splat], vec4(vec3(LARGEST), 1.0));
    tile_splats[rank] = packed_splat(s, color);
    tile_reaches[rank] = packed_reach(color.a, splat, 0u);
}
