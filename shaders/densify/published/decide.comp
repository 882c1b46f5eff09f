// Flags the splats whose image-space gradient requests more detail: mean |d_mean2d| in NDC at the
// threshold or above (Kerbl et al. 2023, section 5.2). A splat that no view saw has no gradient.
#include "common.glsl"
#include "contract/refine.glsl"

layout(local_size_x = GROUP) in;
BUFFER_refine_settings(readonly)
BUFFER_counts(readonly)
BUFFER_grow_stats(readonly)
#include "densify/mark.glsl"

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    bool grows = false;
    if (g < counts.splats) {
        GrowStat stat = grow_stats[g];
        grows = stat.views > 0.0 && stat.grad >= refine_settings.grow_grad2d * stat.views;
    }
    mark(g, counts.splats, grows);
}
