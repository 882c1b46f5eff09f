// Pairs of every block and tile -> for each tile those of all blocks before, and their number. A workgroup takes a few columns of the table, whose blocks it
// shares among its threads: neighbours read neighbouring tiles.
#include "common.glsl"
#include "contract/tiles.glsl"
#include "contract/sort.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_digit_counts(restrict)
BUFFER_tile_starts(writeonly)

const uint BLOCK = GROUP * SORT_ROWS, COLUMNS = 8u, SHARES = GROUP / COLUMNS;
shared uint sums[SHARES][COLUMNS];

void main() {
    uint column = gl_LocalInvocationID.x % COLUMNS, share = gl_LocalInvocationID.x / COLUMNS, tile = group_index() * COLUMNS + column;
    uint blocks = (counts.pairs + BLOCK - 1u) / BLOCK, each = (blocks + SHARES - 1u) / SHARES, first = min(share * each, blocks), behind = min(first + each, blocks), own = 0u;
    bool inside = tile < TILES;
    if (inside)
        for (uint block = first; block < behind; ++block) own += digit_counts[block * TILES + tile];
    sums[share][column] = own;
    barrier();
    uint before = 0u;
    for (uint s = 0u; s < share; ++s) before += sums[s][column];
    if (!inside) return;
    if (share == SHARES - 1u) tile_starts[tile] = before + own;
    for (uint block = first; block < behind; ++block) {
        uint value = digit_counts[block * TILES + tile];
        digit_counts[block * TILES + tile] = before;
        before += value;
    }
}
