// The values of the loss's terms that parameters have, into the record of this step; then the next
// step, for the same command buffer submitted again.
#include "common.glsl"
#include "contract/loss.glsl"
#include "loss/sum.glsl"

layout(local_size_x = GROUP) in;
UNIFORM_loss_terms
BUFFER_frame(restrict)
BUFFER_counts(readonly)
BUFFER_term_sums(readonly)
BUFFER_history(writeonly)

void main() {
    for (uint t = 0u; t < MAX_TERMS; ++t) {
        if (loss_terms.regions[t] == 0u || loss_terms.weight[t] == 0.0) continue;
        uint items = loss_terms.items[t] == 0u ? counts.splats : loss_terms.items[t],
             blocks = (items + GROUP - 1u) / GROUP;
        float sum = 0.0;
        for (uint region = 0u; region < loss_terms.regions[t]; ++region)
            for (uint i = gl_LocalInvocationID.x; i < blocks; i += GROUP)
                sum += term_sums[(loss_terms.first[t] + region) * loss_terms.groups + i];
        sum = sum_group(vec3(sum)).x;
        if (gl_LocalInvocationID.x == 0u)
            history[frame.step % HISTORY].terms[t] =
                sum / (float(loss_terms.width[t] * loss_terms.regions[t]) * float(items));
    }
    barrier();
    if (gl_LocalInvocationID.x == 0u) frame.step += 1u;
}
