// Which cells the loss ignores: those above a limit, near others that are far above it. The limit
// follows from a quantile of the photograph's residuals, so a photograph that is not learned yet,
// or that the scene cannot show, loses none for that. Floor: read 4 B and write 4 B a cell.
#include "contract/core.glsl"
#include "contract/transient.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_transient_settings(readonly)
BUFFER_residual_counts(readonly)
BUFFER_residuals(restrict)
#include "photographs/transient/cells.glsl"

// FAR: the limit over the QUANTILE, and LEAST at least, see hardsplat.train.step.transient. NEAR:
// the lower limit over that. REACH: cells to each side that vote, 20 x 20 pixels, of which VOTES
// agree.
layout(constant_id = 1) const float FAR = 6.0;
layout(constant_id = 2) const float LEAST = 0.06;
const float QUANTILE = 0.75, NEAR = 0.5;
const int REACH = 2, VOTES = 3, AREA = int(TILE) + 2 * REACH;
shared uint below[RESIDUAL_BINS];
shared float around[AREA * AREA];

// Every thread must call it.
float limit_of(uint cells) {
    uint t = gl_LocalInvocationIndex;
    below[t] = residual_counts[t];
    barrier();
    for (uint step = 1u; step < RESIDUAL_BINS; step *= 2u) {
        uint more = t >= step ? below[t - step] : 0u;
        barrier();
        below[t] += more;
        barrier();
    }
    // the bins whose cells are all below the quantile come first
    uint bin = 0u;
    for (uint half_ = RESIDUAL_BINS / 2u; half_ > 0u; half_ /= 2u)
        if (float(below[bin + half_ - 1u]) < QUANTILE * float(cells)) bin += half_;
    float root = (float(bin) + 0.5) / float(RESIDUAL_BINS);
    return max(FAR * root * root, LEAST);
}

void main() {
    if (frame.step < transient_settings.since) return;
    ivec2 cells = ivec2(cells_of(camera.size)), corner = ivec2(gl_WorkGroupID.xy * TILE) - REACH;
    float limit = limit_of(uint(cells.x * cells.y));
    for (int i = int(gl_LocalInvocationIndex); i < AREA * AREA; i += int(TILE * TILE)) {
        ivec2 at = corner + ivec2(i % AREA, i / AREA);
        bool there = at == clamp(at, ivec2(0), cells - 1);
        around[i] = there ? abs(residuals[residual_at(uvec2(at))]) : 0.0;
    }
    barrier();
    ivec2 cell = ivec2(gl_GlobalInvocationID.xy), own = ivec2(gl_LocalInvocationID.xy);
    if (any(greaterThanEqual(cell, cells))) return;
    int votes = 0;
    for (int y = 0; y <= 2 * REACH; ++y)
        for (int x = 0; x <= 2 * REACH; ++x)
            votes += int(around[(own.y + y) * AREA + own.x + x] > limit);
    float mean = around[(own.y + REACH) * AREA + own.x + REACH];
    residuals[residual_at(uvec2(cell))] = mean > NEAR * limit && votes >= VOTES ? -mean : mean;
}
