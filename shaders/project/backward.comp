// One thread a splat: the moments that its fragments added up -> gradients of its Splat2D -> gradients of its 59 parameters, handed to <sink>: stored, or taken by Adam.
// Rows that were not visible hand over zeros: the published Adam moves every splat by its momentum at every step.
#include "common.glsl"
#include "projection.glsl"
#include "gaussian2d.glsl"
#include "sh.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const uint SH_PLANES = 16u;
layout(constant_id = 1) const bool ANTIALIASED = false;

BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_splats2d(readonly)
BUFFER_d_splats2d(restrict)
#include <sink>

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats) return;
    bool visible = splats2d[g].opacity > 0.0;

    vec3 mean = means[g], log_scale = log_scales[g];
    vec4 quat = quats[g];
    vec3 d_mean = vec3(0.0), d_log_scale = vec3(0.0), d_color = vec3(0.0), n = vec3(0.0, 0.0, 1.0);
    vec4 d_quat = vec4(0.0);
    float d_logit = 0.0, basis[16], s[16], distance = 1.0;

    if (visible) {
        float m[GRADIENTS];
        for (uint i = 0u; i < GRADIENTS; ++i) {
            m[i] = d_splats2d[GRADIENT_STRIDE * g + i];
            d_splats2d[GRADIENT_STRIDE * g + i] = 0.0;  // left clean for the next frame: no pass needs to clear N rows
        }
        Splat2D s2 = splats2d[g];
        vec2 d_mean2d;
        vec3 d_conic;
        d_gaussian(s2.conic, s2.opacity * vec2(m[1], m[2]), s2.opacity * vec3(m[3], m[4], m[5]), d_mean2d, d_conic);
        vec3 scale = exp(log_scale);
        float len = length(quat);
        Projection o = project(camera, mean, quat / len, scale);
        vec3 d_a0, d_a1, d_scale;
        d_rows(o, s2.conic, d_conic, d_a0, d_a1);
        if (ANTIALIASED) d_compensation(o, m[0] * s2.opacity, d_a0, d_a1);
        vec4 d_unit;
        d_project(camera, o, quat / len, scale, d_mean2d, d_a0, d_a1, d_mean, d_unit, d_scale);
        d_quat = d_normalize(quat / len, len, d_unit);
        d_log_scale = d_scale * scale;
        d_logit = m[0] * s2.opacity / (1.0 + exp(logit_opacities[g]));  // o (1 - o): near 1 the difference has no digits
        vec3 away = mean - camera.position;
        distance = length(away);
        n = away / distance;
        // color = max(SH + 0.5, 0): no gradient where it was cut off
        d_color = mix(vec3(0.0), vec3(m[6], m[7], m[8]), greaterThan(s2.color, vec3(0.0)));
        sink_view(g, d_mean2d, 3.0 * sqrt(largest_variance(o.cov)));
    }

    sh_basis(n, frame.sh_degree, basis);
    for (uint k = 0u; k < SH_PLANES; ++k) s[k] = sink_sh(g, k, basis[k] * d_color, d_color);
    if (visible && frame.sh_degree > 0u) d_mean += d_normalize(n, distance, d_sh_basis(n, frame.sh_degree, s));
    sink_geometry(g, d_mean, d_quat, d_log_scale, d_logit);
}
