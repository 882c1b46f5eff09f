// Visible splats in depth order, packed for the tiles, with the number of tiles each touches; and those of every sort block together.
#include "common.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_order(readonly)
BUFFER_splats2d(readonly)
BUFFER_tile_splats(writeonly)
BUFFER_pair_sums(writeonly)

const float LARGEST = 1e18;  // colour whose products stay finite
shared uint sum;

void main() {
    uint t = gl_LocalInvocationID.x, block = group_index(), mine = 0u;
    if (t == 0u) sum = 0u;
    barrier();
    for (uint row = 0u; row < SORT_ROWS; ++row) {
        uint rank = (block * SORT_ROWS + row) * GROUP + t;
        if (rank >= counts.visible) break;
        uint g = order[rank];
        Splat2D s = splats2d[g];
        float cutoff = max(2.0 * log(s.opacity / ALPHA_MIN), 0.0);
        TileSplat packed = TileSplat(vec4(s.mean, s.conic.xy), vec4(s.conic.z, min(s.color, vec3(LARGEST))), s.opacity, cutoff, g, 0u);
        Ellipse e = ellipse_of(packed);
        uvec2 rows = rows_of(e);
        for (uint y = rows.x; y < rows.y; ++y) {
            uvec2 columns = columns_of(e, y);
            packed.tiles += columns.y - columns.x;
        }
        tile_splats[rank] = packed;
        mine += packed.tiles;
    }
    atomicAdd(sum, mine);  // of integers: any order gives the same
    barrier();
    if (t == 0u) pair_sums[block] = sum;
}
