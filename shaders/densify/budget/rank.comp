// Tickets of thinning: classes by what splats have shown of themselves; the least are removed (Fang
// & Wang 2024, "Mini-Splatting", without its chance). That is the sum of T alpha over the pixels of
// all views that were scored, times the root of how strong the edges there are on the mean: where
// the photograph is smooth, neighbours can take a splat's place. Those that no view showed come
// first, in an order of chance: they may be too many to go at once.
#include "common.glsl"
#include "contract/refine.glsl"
#include "random.glsl"

layout(local_size_x = GROUP) in;
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_score_stats(readonly)
BUFFER_tickets(writeonly)
BUFFER_ticket_counts(restrict)

const uint UNSEEN_CLASSES = 256u;
const float CLASSES_AN_OCTAVE = 64.0;
// Strength of an edge that is added everywhere, so that nothing of a photograph without any counts
// for nothing.
const float FLAT = 0.01;

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats) return;
    ScoreStat s = score_stats[g];
    float shown = sqrt((s.edges + FLAT * s.blended) * s.blended);
    float place = float(UNSEEN_CLASSES) + (log2(max(shown, 1e-9)) + 30.0) * CLASSES_AN_OCTAVE;
    if (!(shown > 0.0))
        place =
            float(UNSEEN_CLASSES) * random_uniform(uvec4(frame.seed, frame.step, g, DRAW_TICKET)).x;
    uint ticket = uint(clamp(place, 0.0, float(TICKETS - 1u)));
    atomicAdd(ticket_counts[ticket], 1u);
    tickets[g] = ticket;
}
