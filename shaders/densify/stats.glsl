// The statistics that a refinement leaves: none, or a share of them, so that those of some refinements add up to a mean.
#include "contract/refine.glsl"

const GrowStat NO_STATS = GrowStat(0.0, 0.0, 0.0, 0.0, 0.0, 0.0);

GrowStat aged(GrowStat s, float share) {
    if (share == 0.0) return NO_STATS;  // whatever they are
    return GrowStat(share * s.grad, share * s.views, 0.0, share * s.edges, share * s.errors, share * s.blended);
}
