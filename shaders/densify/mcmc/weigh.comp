// How likely each splat is to be copied: its opacity in fixed point, 0 for the dead, summed over
// its workgroup up to itself. flags: twice that sum, + 1 for the living. flag_sums: the workgroups'
// weights, which fit 32 bits all together.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/refine.glsl"
#include "scan.glsl"

layout(local_size_x = GROUP) in;
// Everyone finite is alive: the dead have just been relocated.
layout(constant_id = 1) const bool ADDS = false;
BUFFER_refine_settings(readonly)
BUFFER_counts(readonly)
BUFFER_flags(writeonly)
BUFFER_flag_sums(writeonly)
BUFFER_copies(writeonly)
#include "densify/finite.glsl"

const float ONE = 4194304.0;  // 2^22: of a workgroup at most 2^30

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x, weight = 0u, total;
    bool alive = false;
    if (g < counts.splats) {
        float opacity = 1.0 / (1.0 + exp(-value1(PLANE_logit_opacities, g)));
        alive = finite(g) && (ADDS || opacity > refine_settings.prune_opa);
        if (alive) weight = uint(opacity * ONE);
        copies[g] = 0u;
    }
    uint upto = scan_group(weight, total) + weight;
    if (g >= counts.splats) return;
    flags[g] = 2u * upto + uint(alive);
    uint workgroups = (counts.splats + GROUP - 1u) / GROUP;
    if (gl_LocalInvocationID.x == 0u) flag_sums[g / GROUP] = total >> findMSB(workgroups);
}
