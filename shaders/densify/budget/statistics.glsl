// <statistics> of densify/fill.comp for scores: a refinement leaves a share of them, so that those of some refinements add up to a mean.
#include "contract/refine.glsl"
BUFFER_score_stats(restrict)

void forget_statistics(uint g) { score_stats[g] = ScoreStat(0.0, 0.0, 0.0, 0.0, 0.0); }

void move_statistics(uint from, uint to) {
    float share = refine_settings.stats_kept;
    ScoreStat s = score_stats[from];
    if (share == 0.0) forget_statistics(to);  // whatever they are
    else score_stats[to] = ScoreStat(share * s.grad, share * s.views, share * s.edges, share * s.errors, share * s.blended);
}
