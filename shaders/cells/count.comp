// How many splats each list has. A workgroup a list looks at all splats of its depth segment.
#include "common.glsl"
#include "contract/cells.glsl"
layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_cell_reaches(readonly)
BUFFER_cell_lists(writeonly)
#include "cells/grid.glsl"
#include "draw/segments.glsl"
#include "scan.glsl"

void main() {
    uint list = group_index();
    if (list >= CELLS * SEGMENTS) return;
    uint segment = list / CELLS, end = segment_start(segment + 1u, counts.visible), found = 0u, own_splats;
    uvec2 cell = place_of(list);
    for (uint rank = segment_start(segment, counts.visible) + gl_LocalInvocationID.x; rank < end; rank += GROUP) found += uint(touches(cell_reaches[rank], cell));
    scan_group(found, own_splats);
    if (gl_LocalInvocationID.x == 0u) cell_lists[list].splats = own_splats;
}
