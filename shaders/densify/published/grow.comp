// Flagged splats clone or split (Kerbl et al. 2023, section 5.2), each appending one place in the
// order of their ranks, as far as places last. Clone: the copy starts without momentum, the
// original keeps its own. Split: both children are drawn from the Gaussian and 1.6 times smaller;
// the first takes its parent's place.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/refine.glsl"
#include "projection.glsl"
#include "random.glsl"

layout(local_size_x = GROUP) in;
BUFFER_refine_settings(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
#include "densify/rank.glsl"
#include "densify/planes.glsl"
#include "densify/published/statistics.glsl"

const float SHRINK = log(1.6);  // Inria: scale / (0.8 * 2 children)

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats || !flagged(g)) return;
    uint added = counts.splats + rank(g);
    if (added >= counts.capacity) return;

    copy_values(g, added);
    zero_moments(added);
    forget_statistics(added);
    vec3 log_scale = value3(PLANE_log_scales, g), scale = exp(log_scale);
    if (max(max(scale.x, scale.y), scale.z) <=
        refine_settings.grow_scale3d * refine_settings.extent)
        return;

    zero_moments(g);
    forget_statistics(g);
    vec3 mean = value3(PLANE_means, g);
    mat3 R = rotation(normalize(value4(PLANE_quats, g)));
    for (uint child = 0u; child < 2u; ++child) {
        uint place = child == 0u ? g : added;
        vec3 normal = random_normal(uvec4(frame.seed, frame.step, g, DRAW_CHILD + child));
        put3(PLANE_means, place, mean + R * (scale * normal));
        put3(PLANE_log_scales, place, log_scale - SHRINK);
    }
}
