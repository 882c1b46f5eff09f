// Cells of CELL x CELL pixels of the photograph of the step, row by row.
#include "contract/transient.glsl"

uvec2 cells_of(uvec2 size) { return (size + CELL - 1u) / CELL; }

// Where a cell is in `residuals`.
uint residual_at(uvec2 cell) {
    return frame.view * transient_settings.cells + cell.y * cells_of(camera.size).x + cell.x;
}
