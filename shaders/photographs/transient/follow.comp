// Differences of cells -> the running mean of each cell's residual, and the histogram of those of
// the photograph. Floor: read 16 B, read and write 4 B a cell.
#include "contract/core.glsl"
#include "contract/transient.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_transient_settings(readonly)
BUFFER_cell_differences(readonly)
BUFFER_residuals(restrict)
BUFFER_residual_counts(restrict)
#include "photographs/transient/cells.glsl"

const float NEW = 0.3, LEAST = 1e-6;  // share of the newest residual in the mean
shared uint counts_here[RESIDUAL_BINS];

// Of the channel that differs most.
float mean_of(vec4 sums) {
    vec3 each = abs(sums.rgb) / max(sums.a, 1.0);
    return max(each.r, max(each.g, each.b));
}

// Around the cell and in it: neither detail that cancels in the first nor a neighbour counts.
float residual_of(ivec2 cell, ivec2 cells) {
    vec4 sums = vec4(0.0);
    ivec2 first = max(cell - 1, 0), last = min(cell + 1, cells - 1);
    for (int y = first.y; y <= last.y; ++y)
        for (int x = first.x; x <= last.x; ++x) sums += cell_differences[y * cells.x + x];
    float own = mean_of(cell_differences[cell.y * cells.x + cell.x]);
    return max(min(own, mean_of(sums)), LEAST);
}

void main() {
    uint t = gl_LocalInvocationIndex;
    if (frame.step < transient_settings.since) return;
    for (uint i = t; i < RESIDUAL_BINS; i += TILE * TILE) counts_here[i] = 0u;
    barrier();
    uvec2 cell = gl_GlobalInvocationID.xy, cells = cells_of(camera.size);
    if (all(lessThan(cell, cells))) {
        uint at = residual_at(cell);
        float before = residuals[at], now = residual_of(ivec2(cell), ivec2(cells));
        float mean = before == 0.0 ? now : mix(abs(before), now, NEW);
        residuals[at] = before < 0.0 ? -mean : mean;
        atomicAdd(counts_here[min(uint(sqrt(mean) * RESIDUAL_BINS), RESIDUAL_BINS - 1u)], 1u);
    }
    barrier();
    for (uint i = t; i < RESIDUAL_BINS; i += TILE * TILE)
        if (counts_here[i] > 0u) atomicAdd(residual_counts[i], counts_here[i]);
}
