// Flags the splats that live on: opaque enough, and finite.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/refine.glsl"

layout(local_size_x = GROUP) in;
BUFFER_refine_settings(readonly)
BUFFER_counts(readonly)
#include "densify/finite.glsl"
#include "densify/mark.glsl"

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    mark(g, counts.splats,
         g < counts.splats && finite(g) &&
             1.0 / (1.0 + exp(-value1(PLANE_logit_opacities, g))) >= refine_settings.prune_opa);
}
