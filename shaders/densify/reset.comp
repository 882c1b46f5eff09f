// Opacity reset (Kerbl et al. 2023, section 5.2): a ceiling on every opacity, and its momentum forgotten.
#include "common.glsl"

layout(local_size_x = GROUP) in;
BUFFER_hyper(readonly)
BUFFER_counts(readonly)
BUFFER_logit_opacities(restrict)
#include <moments>
BUFFER_adam_logit_opacities(writeonly)

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats) return;
    logit_opacities[g] = min(logit_opacities[g], log(hyper.reset_opa / (1.0 - hyper.reset_opa)));
    adam_logit_opacities[g] = MOMENT(0u);
    adam_logit_opacities[counts.stride + g] = MOMENT(0u);
}
