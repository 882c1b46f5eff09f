// Tickets of thinning: classes by what splats have shown of themselves, the sum of T alpha over the pixels of all views that were scored; the least are removed
// (Fang & Wang 2024, "Mini-Splatting", without its chance).
#include "common.glsl"
#include "contract/refine.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_grow_stats(readonly)
BUFFER_tickets(writeonly)
BUFFER_ticket_counts(restrict)

const float CLASSES_AN_OCTAVE = 64.0;

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats) return;
    float shown = max(grow_stats[g].blended, 1e-9);  // 2^-30; 1e-9 for what is not a number, too
    uint ticket = uint(clamp((log2(shown) + 32.0) * CLASSES_AN_OCTAVE, 0.0, float(TICKETS - 1u)));
    atomicAdd(ticket_counts[ticket], 1u);
    tickets[g] = ticket;
}
