// Exploration by stochastic gradient Langevin dynamics (Kheradmand et al. 2024): means move by
// Sigma times a normal, noise in the shape of their Gaussian, times a logistic of opacity that
// keeps what is visible in place.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/train.glsl"
#include "contract/refine.glsl"
#include "projection.glsl"
#include "random.glsl"

layout(local_size_x = GROUP) in;
UNIFORM_planes
BUFFER_refine_settings(readonly)
BUFFER_rates(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
VALUE_means(restrict)
VALUE_quats(readonly)
VALUE_log_scales(readonly)
VALUE_logit_opacities(readonly)

const float STEEPNESS = 100.0, FAINT = 0.005;
// Beyond, exp overflows or nearly so, and what is left moves no float.
const float NEGLIGIBLE = 80.0;

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats) return;
    float above = STEEPNESS * (1.0 / (1.0 + exp(-logit_opacities(g))) - FAINT);
    if (above > NEGLIGIBLE) return;
    mat3 R = rotation(normalize(quats(g)));
    vec3 scale = exp(log_scales(g)),
         normal = random_normal(uvec4(frame.seed, frame.step, g, DRAW_NOISE));
    means(g) += rates[PLANE_means] * refine_settings.noise_lr / (1.0 + exp(above)) *
                (R * (scale * scale * (normal * R)));
}
