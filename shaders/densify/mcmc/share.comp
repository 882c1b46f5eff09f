// A splat of which copies are to be made becomes what each of them will be, and starts without
// momentum: together they look as it did.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/refine.glsl"
#include "densify/mcmc/relocation.glsl"

layout(local_size_x = GROUP) in;
VALUE_log_scales(restrict)
VALUE_logit_opacities(restrict)
BUFFER_refine_settings(readonly)
BUFFER_counts(readonly)
BUFFER_copies(readonly)
#include "densify/planes.glsl"

const float MOST = 15.942385;  // logit of 1 - 2^-23

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats || copies[g] == 0u) return;
    float scale, logit = shared_logit(logit_opacities(g), copies[g] + 1u, scale);
    float least = clamp(refine_settings.prune_opa, 1e-6, 0.5);
    logit_opacities(g) = clamp(logit, log(least / (1.0 - least)), MOST);
    log_scales(g) += log(scale);
    zero_moments(g);
}
