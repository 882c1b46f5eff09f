// How many classes of tickets win. Growth: as many as lead to no more splats than the budget has by
// now, which follows a power of progress. Thinning: as many as leave no fewer than a share of the
// splats. One workgroup; it leaves the counts clean.
#include "common.glsl"
#include "contract/refine.glsl"
#include "scan.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const bool THINS = false;
BUFFER_refine_settings(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_ticket_counts(restrict)
BUFFER_admitted(writeonly)

shared uint winning;

// How far it is from step `first` to step `last`, 0..1.
float progress(uint first, uint last) {
    return min(float(frame.step - min(frame.step, first)) / float(max(last, first + 1u) - first),
               1.0);
}

uint difference(uint more, uint less) { return more - min(more, less); }

uint room() {
    float budget = float(refine_settings.budget) *
                   pow(progress(refine_settings.first_step, refine_settings.last_step),
                       refine_settings.growth);
    if (!THINS) return difference(min(uint(budget), counts.capacity), counts.splats);
    return difference(counts.splats, uint(ceil(float(counts.splats) * refine_settings.thinned)));
}

void main() {
    uint t = gl_LocalInvocationID.x, before = 0u;
    if (t == 0u) winning = 0u;
    barrier();
    for (uint first = 0u; first < TICKETS; first += GROUP) {
        uint mine = ticket_counts[first + t], total;
        ticket_counts[first + t] = 0u;
        uint behind = before + scan_group(mine, total) + mine;
        if (behind <= room()) atomicMax(winning, first + t + 1u);
        before += total;
    }
    barrier();
    if (t == 0u) admitted[0] = winning;
}
