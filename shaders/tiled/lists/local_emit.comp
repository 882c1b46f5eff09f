// The pairs of tile and splat, each to its tile's, in any order. A thread takes a splat; one with
// many tiles is taken by the whole workgroup, a row a thread.
#include "common.glsl"
#include "contract/sort.glsl"
#include "contract/tiles.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_keys(readonly)
BUFFER_tile_splats(readonly)
BUFFER_tile_reaches(readonly)
BUFFER_tile_starts(readonly)
BUFFER_tile_cursors(restrict)
BUFFER_pair_keys(writeonly)

const uint MANY = 32u;
shared uint large[GROUP], larger;

void emit(uint tile, uint key, uint g) {
    uint place = atomicAdd(tile_cursors[tile], 1u);
    // Else the tile's list is full.
    if (place < tile_starts[tile + 1u]) pair_keys[place] = uvec2(g, key);
}

void emit_row(uint y, uvec2 columns, uint key, uint g) {
    for (uint x = columns.x; x < columns.y; ++x) emit(y * TILES_X + x, key, g);
}

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (counts.pairs == 0u) return;
    if (gl_LocalInvocationID.x == 0u) larger = 0u;
    barrier();
    if (g < counts.splats && keys[g] != NOT_VISIBLE) {
        TileReach r = tile_reaches[g];
        Ellipse e = ellipse_of(tile_splats[g], r);
        uvec2 rows = rows_of(e);
        if ((rows.y - rows.x) * (rows.y - rows.x) > MANY) {  // it may be as wide as it is high
            large[atomicAdd(larger, 1u)] = g;
        } else {
            for (uint y = rows.x; y < rows.y; ++y) emit_row(y, columns_of(e, y), r.first, g);
        }
    }
    barrier();
    for (uint i = 0u; i < larger; ++i) {
        TileReach r = tile_reaches[large[i]];
        Ellipse e = ellipse_of(tile_splats[large[i]], r);
        uvec2 rows = rows_of(e);
        for (uint y = rows.x + gl_LocalInvocationID.x; y < rows.y; y += GROUP)
            emit_row(y, columns_of(e, y), r.first, large[i]);
    }
}
