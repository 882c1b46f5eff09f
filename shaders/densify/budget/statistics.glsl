// <statistics> of densify/fill.comp for scores: a refinement leaves a share of them, so that those
// of some refinements add up to a mean.
#include "contract/refine.glsl"
BUFFER_score_stats(restrict)

const float KEPT = 0.5;  // share of the scores that a refinement leaves

void forget_statistics(uint g) { score_stats[g] = ScoreStat(0.0, 0.0, 0.0, 0.0); }

void move_statistics(uint from, uint to) {
    ScoreStat s = score_stats[from];
    score_stats[to] =
        ScoreStat(KEPT * s.grad, KEPT * s.views, KEPT * s.edges, KEPT * s.blended);
}
