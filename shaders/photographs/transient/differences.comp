// Image less photograph, with its sign, summed over each cell: detail that the splats lack so far
// cancels out of it, what stands elsewhere does not. Floor: read target 4..16 B and photograph 4 B
// a pixel, write 1 B.
#include "contract/loss.glsl"
#include "contract/transient.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
BUFFER_transient_settings(readonly)
BUFFER_cell_differences(writeonly)
BUFFER_residual_counts(writeonly)
#include "loss/pixel.glsl"
#include "loss/seen.glsl"
#include "photographs/transient/cells.glsl"

void main() {
    uint t = gl_LocalInvocationIndex;
    if (gl_WorkGroupID.xy == uvec2(0u) && t < RESIDUAL_BINS) residual_counts[t] = 0u;
    if (frame.step < transient_settings.since) return;
    begin_seen();
    uvec2 cell = gl_GlobalInvocationID.xy, cells = cells_of(camera.size);
    if (any(greaterThanEqual(cell, cells))) return;
    uvec2 first = cell * CELL, end = min(first + CELL, camera.size);
    vec4 sums = vec4(0.0);
    for (uint y = first.y; y < end.y; ++y)
        for (uint x = first.x; x < end.x; ++x) {
            ivec2 at = ivec2(x, y);
            uint packed = packed_photograph(at);
            if (packed != IGNORED) sums += vec4(seen(at) - photograph(packed), 1.0);
        }
    cell_differences[cell.y * cells.x + cell.x] = sums;
}
