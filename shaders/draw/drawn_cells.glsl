// <drawn>: the splats of the cells' lists in turns, each splat once for every cell that it touches, where its outline ends at the edges of the cell.
#include "contract/cells.glsl"
#include "cells/grid.glsl"
BUFFER_cell_turns(readonly)

Drawn drawn_as(uint i) {
    uvec2 turn = cell_turns[i];
    return Drawn(order[turn.x], turn.x, turn.y / CELLS, turn.y);
}

vec2 within(vec2 px, Drawn d) {
    vec2 corner = vec2(place_of(d.list) * CELL);
    return clamp(px, corner, min(corner + vec2(CELL), vec2(CANVAS_WIDTH, CANVAS_HEIGHT)));
}
