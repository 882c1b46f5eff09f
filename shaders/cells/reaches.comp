// The cells that the axis-aligned box of each visible splat touches.
#include "common.glsl"
#include "contract/cells.glsl"
#include "contract/sort.glsl"
#include "contract/splats.glsl"
layout(local_size_x = GROUP) in;
layout(constant_id = 4) const uint BLOCK_W = 1u;  // pixels that a fragment stands for
layout(constant_id = 5) const uint BLOCK_H = 1u;
BUFFER_counts(readonly)
BUFFER_order(readonly)
BUFFER_splats2d(readonly)
BUFFER_cell_reaches(writeonly)
#include "cells/grid.glsl"

const float ROUNDING = 0.05;  // px, more than a corner of the box is off for it

void main() {
    uint rank = group_index() * GROUP + gl_LocalInvocationID.x;
    if (rank >= counts.visible) return;
    Splat2D s = splats2d[order[rank]];
    vec2 extent = sqrt(s.axis1 * s.axis1 + s.axis2 * s.axis2) + QUAD_MARGIN + ROUNDING + 0.5 * vec2(BLOCK_W - 1u, BLOCK_H - 1u);
    vec2 cells = vec2(CELLS_X, CELLS_Y), from = floor((s.mean - extent) / CELL), to = floor((s.mean + extent) / CELL);
    bool inside = all(greaterThanEqual(to, vec2(0.0))) && all(lessThan(from, cells));
    cell_reaches[rank] = inside ? pack_cells(uvec2(max(from, vec2(0.0))), uvec2(min(to, cells - 1.0))) : NO_CELLS;
}
