// One workgroup turns the blocks' numbers of shown splats into those of all blocks before each, and
// says how many the working set has, and how many it should have.
#include "common.glsl"
#include "contract/working.glsl"
#include "scan.glsl"

layout(local_size_x = GROUP) in;
BUFFER_model_counts(readonly)
BUFFER_counts(restrict)
BUFFER_shown_sums(restrict)

const uint BLOCK = GROUP * SORT_ROWS, EACH = 16u;  // blocks of a thread at once

void main() {
    uint blocks = (model_counts.splats + BLOCK - 1u) / BLOCK, before = 0u;
    for (uint start = 0u; start < blocks; start += GROUP * EACH) {
        uint first = start + EACH * gl_LocalInvocationID.x, end = min(first + EACH, blocks);
        uint own = 0u, sum;
        for (uint b = first; b < end; ++b) own += shown_sums[b];
        uint place = before + scan_group(own, sum);
        for (uint b = first; b < end; ++b) {
            uint shown = shown_sums[b];
            shown_sums[b] = place;
            place += shown;
        }
        before += sum;
    }
    if (gl_LocalInvocationID.x > 0u) return;
    shown_sums[blocks] = counts.wanted = before;
    counts.splats = min(before, counts.capacity);
}
