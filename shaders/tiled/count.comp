// Visible splats in depth order, packed for the tiles, each with the number of pairs of its sort block before it; and the pairs of every block.
#include "common.glsl"
#include "contract/tiles.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_order(readonly)
BUFFER_splats2d(readonly)
BUFFER_colors2d(readonly)
BUFFER_tile_splats(writeonly)
BUFFER_tile_reaches(writeonly)
BUFFER_pair_sums(writeonly)
#include "scan.glsl"

const uint BLOCK = GROUP * SORT_ROWS;
const float LARGEST = 1e18;  // colour whose products stay finite
shared uint firsts[BLOCK];

void main() {
    uint t = gl_LocalInvocationID.x, block = group_index(), mine = 0u, total;
    if (block * BLOCK >= counts.visible) return;
    for (uint i = t; i < BLOCK; i += GROUP) {
        uint rank = block * BLOCK + i, tiles = 0u;
        if (rank < counts.visible) {
            uint g = order[rank];
            Splat2D s = splats2d[g];
            vec4 color = colors2d[g];
            float cutoff = max(2.0 * log(color.a / ALPHA_MIN), 0.0);
            TileSplat packed = TileSplat(vec4(s.mean, s.conic.xy), vec4(s.conic.z, min(color.rgb, vec3(LARGEST))));
            TileReach reach = TileReach(color.a, cutoff, g, 0u);
            tile_splats[rank] = packed;
            tile_reaches[rank] = reach;
            tiles = tiles_of(ellipse_of(packed, reach));
        }
        firsts[i] = tiles;
    }
    barrier();
    for (uint i = 0u; i < SORT_ROWS; ++i) mine += firsts[t * SORT_ROWS + i];
    uint first = scan_group(mine, total);
    for (uint i = 0u; i < SORT_ROWS; ++i) {
        uint tiles = firsts[t * SORT_ROWS + i];
        firsts[t * SORT_ROWS + i] = first;
        first += tiles;
    }
    barrier();
    for (uint i = t; i < BLOCK && block * BLOCK + i < counts.visible; i += GROUP) tile_reaches[block * BLOCK + i].first = firsts[i];
    if (t == 0u) pair_sums[block] = total;
}
