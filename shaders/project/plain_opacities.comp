// One thread a splat: the opacity with which programs that do not know the 2D filter draw an
// antialiased splat most alike. That is its own times the mean compensation over the cameras that
// have its mean in their image, each weighed by the splat's area there.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/harmonics.glsl"

layout(local_size_x = GROUP) in;

UNIFORM_planes
VALUE_means(readonly)
VALUE_quats(readonly)
BUFFER_fit_settings(readonly)
BUFFER_plain_opacities(writeonly)
#include "projection.glsl"
#include "lens_distorted.glsl"
#include "project/given.glsl"
#include "project/onlookers.glsl"

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= fit_settings.count) return;
    vec3 mean = means(g), scale = scale_of(g);
    vec4 quat = normalize(quats(g));
    float area = 0.0, kept = 0.0;
    for (uint i = 0u; i < fit_settings.onlookers; ++i) {
        if (!sees(onlookers[i], mean)) continue;
        Projection o = project(onlookers[i], mean, quat, scale);
        float here = sqrt(o.det), left = here * compensation(o);
        if (!finite(vec4(here, left, 0.0, 0.0))) continue;
        area += here;
        kept += left;
    }
    plain_opacities[g] = opacity_of(g) * (area > 0.0 ? kept / area : 1.0);
}
