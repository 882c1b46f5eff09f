// Splats packed for the tiles, and how many pairs every tile will have: along a row of tiles, where
// splats begin to touch them and where they end.
#include "common.glsl"
#include "contract/sort.glsl"
#include "contract/tiles.glsl"
#include "tiled/grid.glsl"
#include "tiled/packed.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(restrict)
BUFFER_keys(readonly)
BUFFER_splats2d(readonly)
BUFFER_colors2d(readonly)
BUFFER_tile_splats(writeonly)
BUFFER_tile_reaches(writeonly)
BUFFER_tile_changes(restrict)

// Else splats are packed again, which other colours have.
layout(constant_id = 7) const bool LISTS = true;
shared uint found;

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x,
         key = g < counts.splats ? keys[g] : NOT_VISIBLE;
    if (gl_LocalInvocationID.x == 0u) found = 0u;
    barrier();
    if (key != NOT_VISIBLE) {
        atomicAdd(found, 1u);
        Splat2D s = splats2d[g];
        vec4 color = colors2d[g];
        TileReach reach = packed_reach(color.a, g, key);
        TileSplat packed = packed_splat(s, color);
        tile_splats[g] = packed;
        tile_reaches[g] = reach;
        Ellipse e = ellipse_of(packed, reach);
        uvec2 rows = LISTS ? rows_of(e) : uvec2(0u);
        for (uint y = rows.x; y < rows.y; ++y) {
            uvec2 columns = columns_of(e, y);
            if (columns.x == columns.y) continue;
            atomicAdd(tile_changes[y * (TILES_X + 1u) + columns.x], 1);
            atomicAdd(tile_changes[y * (TILES_X + 1u) + columns.y], -1);
        }
    }
    barrier();
    if (LISTS && gl_LocalInvocationID.x == 0u && found > 0u) atomicAdd(counts.visible, found);
}
