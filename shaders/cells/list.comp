// The splats of each list, nearest first. A workgroup a list; a thread looks at EACH neighbours at a time.
#include "common.glsl"
#include "contract/cells.glsl"
layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_cell_reaches(readonly)
BUFFER_cell_lists(readonly)
BUFFER_cell_members(writeonly)
#include "cells/grid.glsl"
#include "draw/segments.glsl"
#include "scan.glsl"

const uint EACH = 16u;

void main() {
    uint list = group_index();
    if (list >= CELLS * SEGMENTS) return;
    uint segment = list / CELLS, end = segment_start(segment + 1u, counts.visible), found = 0u;
    uint own_splats = cell_lists[list].splats, start = cell_lists[list].start;
    uvec2 cell = place_of(list);
    for (uint first = segment_start(segment, counts.visible); first < end && found < own_splats; first += EACH * GROUP) {
        uint rank = first + EACH * gl_LocalInvocationID.x, here = 0u, total;
        for (uint i = 0u; i < EACH; ++i) here |= uint(rank + i < end && touches(cell_reaches[min(rank + i, end - 1u)], cell)) << i;
        uint place = found + scan_group(uint(bitCount(here)), total);
        for (; here != 0u && place < own_splats; here &= here - 1u) cell_members[start + place++] = rank + uint(findLSB(here));
        found += total;
    }
}
