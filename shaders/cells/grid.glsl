// Cells of CELL x CELL pixels that cover the canvas. Each cell of each depth segment has a list of the splats that touch it.
layout(constant_id = 9) const uint CELL = 64u;
layout(constant_id = 10) const uint CELLS_X = 1u;
layout(constant_id = 11) const uint CELLS_Y = 1u;
const uint CELLS = CELLS_X * CELLS_Y;

// Columns and rows of cells, first and last, in 8 bits each.
const uint NO_CELLS = 0x00FF00FFu;  // from the last one to the first
uint pack_cells(uvec2 first, uvec2 last) { return first.x | last.x << 8u | first.y << 16u | last.y << 24u; }
bool touches(uint cells, uvec2 cell) {
    uvec4 ends = uvec4(cells, cells >> 8u, cells >> 16u, cells >> 24u) & 255u;
    return ends.x <= cell.x && cell.x <= ends.y && ends.z <= cell.y && cell.y <= ends.w;
}
uvec2 place_of(uint list) { return uvec2(list % CELLS % CELLS_X, list % CELLS / CELLS_X); }
