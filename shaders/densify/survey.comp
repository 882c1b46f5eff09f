// Flags the splats that live on: opaque enough and, once opacities have been reset, not too large in the world or on screen
// (Kerbl et al. 2023, section 5.2). Whoever holds a number that is not finite dies, before it spreads through the image.
#include "common.glsl"

layout(local_size_x = GROUP) in;
BUFFER_hyper(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_grow_stats(readonly)
#include "densify/whole.glsl"
#include "densify/mark.glsl"

bool lives(uint g) {
    float opacity = 1.0 / (1.0 + exp(-logit_opacities[g]));
    if (opacity < hyper.prune_opa) return false;
    if (hyper.reset_every == 0u || frame.step <= hyper.reset_every) return true;
    vec3 log_scale = log_scales[g];
    if (exp(max(max(log_scale.x, log_scale.y), log_scale.z)) > hyper.prune_scale3d * hyper.extent) return false;
    return hyper.prune_screen == 0.0 || grow_stats[g].radius <= hyper.prune_screen;
}

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    mark(g, counts.splats, g < counts.splats && whole(g) && lives(g));
}
