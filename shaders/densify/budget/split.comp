// Flagged splats split in two along their longest axis, large and small ones alike (Deng et al.
// 2025, "Improved-GS"). The first child takes its parent's place, the second one a place behind the
// last. Both start without momentum.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/refine.glsl"
#include "projection.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
#include "densify/rank.glsl"
#include "densify/planes.glsl"
#include "densify/budget/statistics.glsl"

// A child's distance from its parent's mean in its longest standard deviations; scales along that
// axis and the others, and opacity, over its parent's.
const float OFFSET = 1.35, LONG = 0.55, SHORT = 0.893, OPACITY = 0.6;

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats || !flagged(g)) return;
    uint added = counts.splats + rank(g);
    if (added >= counts.capacity) return;

    copy_values(g, added);
    vec3 log_scale = value3(PLANE_log_scales, g), longest = vec3(1.0, 0.0, 0.0);
    if (log_scale.y > log_scale.x) longest = vec3(0.0, 1.0, 0.0);
    if (log_scale.z > max(log_scale.x, log_scale.y)) longest = vec3(0.0, 0.0, 1.0);
    mat3 R = rotation(normalize(value4(PLANE_quats, g)));
    vec3 mean = value3(PLANE_means, g), away = R * (longest * exp(log_scale)) * OFFSET;
    float opacity = OPACITY / (1.0 + exp(-value1(PLANE_logit_opacities, g)));
    for (uint child = 0u; child < 2u; ++child) {
        uint place = child == 0u ? g : added;
        put3(PLANE_means, place, child == 0u ? mean + away : mean - away);
        vec3 smaller = log(mix(vec3(SHORT), vec3(LONG), longest));
        put3(PLANE_log_scales, place, log_scale + smaller);
        put1(PLANE_logit_opacities, place, log(opacity / (1.0 - opacity)));
        zero_moments(place);
        forget_statistics(place);
    }
}
