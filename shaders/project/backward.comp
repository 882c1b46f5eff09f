// The moments that a splat's fragments added up -> gradients of its Splat2D -> of its geometry and colour, for project/sink.comp.
// A part of the splats is visible, anywhere among the others: a workgroup lists those of its GROUP rows first, so that no lane idles through
// the long part. Rows rather than ranks of `order`, because neighbours share the cache lines that they read and write.
#include "common.glsl"
#include "projection.glsl"
#include "gaussian2d.glsl"
#include "sh.glsl"

const uint LANES = 64u;
layout(local_size_x = LANES) in;
layout(constant_id = 0) const uint SH_PLANES = 16u;
layout(constant_id = 1) const bool ALL_PLANES = false;  // the sink wants those above the SH degree too, whose gradients are zeros
layout(constant_id = 2) const bool ANTIALIASED = false;

BUFFER_means(readonly)
BUFFER_quats(readonly)
BUFFER_log_scales(readonly)
BUFFER_logit_opacities(readonly)
BUFFER_sh(readonly)
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_indirect(writeonly)
BUFFER_splats2d(readonly)
BUFFER_d_splats2d(restrict)
BUFFER_seen(writeonly)
BUFFER_d_geometry(writeonly)
BUFFER_d_colors(writeonly)
#include <stats>

shared uint visible[GROUP], found;

void differentiate(uint g, uint planes) {
    float m[GRADIENTS];
    for (uint i = 0u; i < GRADIENTS; ++i) {
        m[i] = d_splats2d[GRADIENT_STRIDE * g + i];
        d_splats2d[GRADIENT_STRIDE * g + i] = 0.0;  // left clean for the next frame: no pass needs to clear N rows
    }
    Splat2D s2 = splats2d[g];
    vec3 mean = means[g], away = mean - camera.position;
    float distance = length(away);
    vec3 n = away / distance;
    // color = max(SH + 0.5, 0): no gradient where it was cut off
    vec3 d_color = mix(vec3(0.0), vec3(m[6], m[7], m[8]), greaterThan(s2.color, vec3(0.0)));
    d_colors[g] = ColorGradient(d_color, n);
    float s[16];
    [[unroll]] for (uint k = 0u; k < 16u; ++k) s[k] = k < planes ? dot(sh[k * counts.capacity + g], d_color) : 0.0;

    vec2 d_mean2d;
    vec3 d_conic;
    d_gaussian(s2.conic, s2.opacity * vec2(m[1], m[2]), s2.opacity * vec3(m[3], m[4], m[5]), d_mean2d, d_conic);
    vec4 quat = quats[g];
    vec3 scale = exp(log_scales[g]);
    float len = length(quat);
    Projection o = project(camera, mean, quat / len, scale);
    vec3 d_a0, d_a1, d_mean, d_scale;
    vec4 d_unit;
    d_rows(o, s2.conic, d_conic, d_a0, d_a1);
    if (ANTIALIASED) d_compensation(o, m[0] * s2.opacity, d_a0, d_a1);
    d_project(camera, o, quat / len, scale, d_mean2d, d_a0, d_a1, d_mean, d_unit, d_scale);
    if (frame.sh_degree > 0u) d_mean += d_normalize(n, distance, d_sh_basis(n, frame.sh_degree, s));
    float d_logit = m[0] * s2.opacity / (1.0 + exp(logit_opacities[g]));  // o (1 - o): near 1 the difference has no digits
    d_geometry[g] = GeometryGradient(d_mean, d_normalize(quat / len, len, d_unit), d_scale * scale, d_logit);
    add_stats(g, d_mean2d, 3.0 * sqrt(largest_variance(o.cov)));
}

void main() {
    uint t = gl_LocalInvocationID.x, first = group_index() * GROUP;
    uint planes = min((frame.sh_degree + 1u) * (frame.sh_degree + 1u), SH_PLANES);
    if (first == 0u && t == 0u) indirect.sink = uvec3(1u + (ALL_PLANES ? SH_PLANES : planes), fold((counts.splats + GROUP - 1u) / GROUP).xy);
    if (t == 0u) found = 0u;
    barrier();
    for (uint g = first + t; g < min(first + GROUP, counts.splats); g += LANES) {
        bool is_visible = splats2d[g].opacity > 0.0;
        seen[g] = uint(is_visible);
        if (is_visible) visible[atomicAdd(found, 1u)] = g;
    }
    barrier();
    for (uint i = t; i < found; i += LANES) differentiate(visible[i], planes);
}
