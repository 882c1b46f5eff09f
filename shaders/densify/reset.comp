// Opacity reset (Kerbl et al. 2023, section 5.2): a ceiling on every opacity, and its momentum
// forgotten.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/refine.glsl"
#include "densify/planes.glsl"

layout(local_size_x = GROUP) in;
VALUE_logit_opacities(restrict)
BUFFER_refine_settings(readonly)
BUFFER_counts(readonly)

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats) return;
    float ceiling = refine_settings.reset_opacity;
    logit_opacities(g) = min(logit_opacities(g), log(ceiling / (1.0 - ceiling)));
    zero_moments(PLANE_logit_opacities, g);
}
