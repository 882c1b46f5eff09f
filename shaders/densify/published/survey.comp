// Flags the splats that live on: opaque enough and, once opacities have been reset, not too large
// in the world or on screen (Kerbl et al. 2023, section 5.2). A splat that has a number that is not
// finite is removed, before it spreads through the image.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/refine.glsl"

layout(local_size_x = GROUP) in;
BUFFER_refine_settings(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_grow_stats(readonly)
#include "densify/finite.glsl"
#include "densify/mark.glsl"

bool lives(uint g) {
    float opacity = 1.0 / (1.0 + exp(-value1(PLANE_logit_opacities, g)));
    if (opacity < refine_settings.prune_opa) return false;
    if (refine_settings.reset_every == 0u || frame.step <= refine_settings.reset_every) return true;
    vec3 log_scale = value3(PLANE_log_scales, g);
    if (exp(max(max(log_scale.x, log_scale.y), log_scale.z)) >
        PRUNE_SCALE3D * refine_settings.extent)
        return false;
    return PRUNE_SCREEN == 0.0 || grow_stats[g].radius <= PRUNE_SCREEN;
}

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    mark(g, counts.splats, g < counts.splats && finite(g) && lives(g));
}
