// <stats> of project/backward.comp: the densification statistics (Kerbl et al. 2023, section 5.2;
// |d_mean2d| in NDC units as published).
#include "contract/refine.glsl"
BUFFER_grow_stats(restrict)

#define Stats GrowStat
GrowStat stats_of(uint g) { return grow_stats[g]; }
void add_stats(uint g, GrowStat stat, vec2 d_mean2d, float radius) {
    stat.grad += length(d_mean2d * 0.5 * vec2(camera.size));
    stat.views += 1.0;
    stat.radius = max(stat.radius, radius);
    grow_stats[g] = stat;
}
