// The pairs of all sort blocks of visible splats -> those before each block, behind the last their sum, and work sizes. One workgroup.
// Pairs beyond the buffers are dropped: the farthest ones.
#include "common.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 6) const uint BUCKET = 512u;  // splats, see buckets.glsl
layout(constant_id = 8) const uint PARTS = 1u;     // workgroups that the backward pass gives a bucket
BUFFER_counts(restrict)
BUFFER_indirect(writeonly)
BUFFER_pair_tiles(readonly)
BUFFER_pair_sums(restrict)
#include "scan.glsl"

const uint BLOCK = GROUP * SORT_ROWS;

void main() {
    uint t = gl_LocalInvocationID.x, blocks = (counts.visible + BLOCK - 1u) / BLOCK, before = 0u, sum;
    for (uint start = 0u; start < blocks; start += GROUP) {
        uint block = start + t, first = scan_group(block < blocks ? pair_sums[block] : 0u, sum);
        if (block < blocks) pair_sums[block] = before + first;
        before += sum;
    }
    if (t > 0u) return;
    pair_sums[blocks] = before;
    uint pairs = min(before, uint(pair_tiles.length()));
    counts.pairs = pairs;
    counts.pairs_wanted = before;
    indirect.pair_blocks = fold((pairs + BLOCK - 1u) / BLOCK);
    indirect.pair_groups = fold(pairs / GROUP + 1u);
    indirect.buckets = fold((pairs / BUCKET + TILES) * PARTS);
}
