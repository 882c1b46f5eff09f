// <statistics> of densify/fill.comp for gradients on screen: they start again after a refinement.
#include "contract/refine.glsl"
BUFFER_grow_stats(writeonly)

void forget_statistics(uint g) { grow_stats[g] = GrowStat(0.0, 0.0, 0.0); }
void move_statistics(uint from, uint to) { forget_statistics(to); }
