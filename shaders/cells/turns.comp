// The order of the draw: rounds in which each list has at most one splat, as many as the longest list has and one more. A list's splats are spread evenly over the rounds,
// so that those of one cell are always as far apart in the draw as can be. A workgroup a round.
#include "common.glsl"
#include "contract/cells.glsl"
layout(local_size_x = GROUP) in;
BUFFER_cell_lists(readonly)
BUFFER_cell_members(readonly)
BUFFER_cell_turns(writeonly)
#include "cells/grid.glsl"
#include "draw/segments.glsl"
#include "scan.glsl"

const uint LISTS = CELLS * SEGMENTS, EACH = (LISTS + GROUP - 1u) / GROUP;  // lists of a thread

// Splats that a list has in the rounds before this one: round * share / 2^32.
uint drawn_before(uint round, uint list) {
    uint high, low;
    umulExtended(round, cell_lists[list].share, high, low);
    return high;
}

void main() {
    uint round = group_index(), t = gl_LocalInvocationID.x, before = 0u, own = 0u, all_before, total;
    for (uint i = EACH * t; i < min(EACH * t + EACH, LISTS); ++i) {
        uint first = drawn_before(round, i);
        before += first;
        own += drawn_before(round + 1u, i) - first;
    }
    scan_group(before, all_before);
    uint place = all_before + scan_group(own, total);
    for (uint i = EACH * t; i < min(EACH * t + EACH, LISTS); ++i) {
        uint first = drawn_before(round, i);
        if (drawn_before(round + 1u, i) > first) cell_turns[place++] = uvec2(cell_members[cell_lists[i].start + first], i);
    }
}
