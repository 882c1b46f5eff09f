// Draws candidates for splits without replacement, with probabilities by weight: each draws an
// exponential number over its weight, and the least win (Efraimidis & Spirakis 2006). Numbers are
// sorted into classes of equal width in their logarithm, which are counted. Splats with smaller
// gradients follow behind all others, for when those are fewer than the capacity.
#include "common.glsl"
#include "contract/refine.glsl"
#include "random.glsl"
#include <region>
#ifndef FILLED_region
float growth(uint g) { return 1.0; }
#endif

layout(local_size_x = GROUP) in;
BUFFER_refine_settings(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_score_stats(readonly)
BUFFER_tickets(writeonly)
BUFFER_ticket_counts(restrict)

const float CLASSES_AN_OCTAVE = 32.0, OCTAVES_BEHIND = 32.0;

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats) return;
    ScoreStat stat = score_stats[g];
    bool strong = stat.grad >= refine_settings.grow_absolute * stat.views,
         grows =
             stat.views > 0.0 &&
             (strong || stat.grad >= refine_settings.grow_least * stat.views);
    float weight = grows ? growth(g) * (stat.edges / stat.views) : 0.0;
    uint ticket = NO_TICKET;
    if (weight > 0.0) {
        float drawn =
            -log(1.0 - random_uniform(uvec4(frame.seed, frame.step, g, DRAW_TICKET)).x) / weight;
        ticket = uint(clamp(
            (log2(max(drawn, 1e-30)) + 64.0 + (strong ? 0.0 : OCTAVES_BEHIND)) * CLASSES_AN_OCTAVE,
            0.0, float(TICKETS - 1u)));
        atomicAdd(ticket_counts[ticket], 1u);
    }
    tickets[g] = ticket;
}
