// How many classes of tickets win: as many as lead to no more splats than the budget has by now, which grows as the square root of progress
// (Deng et al. 2025, "Improved-GS"). One workgroup; it leaves the counts clean.
#include "common.glsl"
#include "contract/refine.glsl"
#include "scan.glsl"

layout(local_size_x = GROUP) in;
BUFFER_refine_settings(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_ticket_counts(restrict)
BUFFER_admitted(writeonly)

shared uint winning;

uint target() {
    float t = float(frame.step - min(frame.step, refine_settings.first_step)) / float(max(refine_settings.last_step - refine_settings.first_step, 1u));
    return min(uint(float(refine_settings.budget) * sqrt(min(t, 1.0))), counts.capacity);
}

void main() {
    uint t = gl_LocalInvocationID.x, room = target() - min(target(), counts.splats), before = 0u;
    if (t == 0u) winning = 0u;
    barrier();
    for (uint first = 0u; first < TICKETS; first += GROUP) {
        uint mine = ticket_counts[first + t], total;
        ticket_counts[first + t] = 0u;
        uint behind = before + scan_group(mine, total) + mine;
        if (behind <= room) atomicMax(winning, first + t + 1u);
        before += total;
    }
    barrier();
    if (t == 0u) admitted[0] = winning;
}
