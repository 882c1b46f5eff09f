// Visible splats in depth order, packed for the tiles, each with the number of pairs of its
// workgroup before it; and the pairs of every workgroup.
#include "common.glsl"
#include "contract/tiles.glsl"
#include "tiled/lists/spans.glsl"
#include "tiled/packed.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_order(readonly)
BUFFER_splats2d(readonly)
BUFFER_colors2d(readonly)
BUFFER_tile_splats(writeonly)
BUFFER_tile_reaches(writeonly)
BUFFER_tile_spans(writeonly)
BUFFER_pair_sums(writeonly)
#include "scan.glsl"

void main() {
    uint rank = group_index() * GROUP + gl_LocalInvocationID.x, tiles = 0u, total;
    if (group_index() * GROUP >= counts.visible) return;
    TileReach reach;
    if (rank < counts.visible) {
        uint g = order[rank];
        Splat2D s = splats2d[g];
        vec4 color = colors2d[g];
        TileSplat packed = packed_splat(s, color);
        reach = packed_reach(color.a, g, 0u);
        tile_splats[rank] = packed;
        tile_spans[rank] = span_of(ellipse_of(packed, reach), tiles);
    }
    reach.first = scan_group(tiles, total);
    if (rank < counts.visible) tile_reaches[rank] = reach;
    if (gl_LocalInvocationID.x == 0u) pair_sums[group_index()] = total;
}
