// One thread a splat: 3D Gaussian -> its Splat2D perturbed along its signs and against them, and
// the ellipse that covers both. Parameters are read once for the two. Culling and depth are those
// of the unperturbed splat: both images have one order, for which one sort does, and the difference
// is none of order.
#include "common.glsl"
#include "contract/trained.glsl"
#include "sort/depth_key.glsl"
#include "contract/stochastic.glsl"
layout(local_size_x = GROUP) in;
layout(constant_id = 0) const uint SH_PLANES = 16u;
layout(constant_id = 3) const uint PAIR = 0u;

UNIFORM_planes
VALUE_means(readonly)
VALUE_quats(readonly)
VALUE_log_scales(readonly)
VALUE_logit_opacities(readonly)
VALUE_sh0(readonly)
VALUE_shN(readonly)
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_splats2d(writeonly)
BUFFER_splats2d_minus(writeonly)
BUFFER_splats2d_cover(writeonly)
BUFFER_colors2d(writeonly)
BUFFER_colors2d_minus(writeonly)
BUFFER_colors2d_cover(writeonly)
BUFFER_mean_steps(writeonly)
BUFFER_splat_differences(writeonly)
BUFFER_keys(writeonly)
BUFFER_seen(writeonly)
#include "splat2d.glsl"
#include "sh.glsl"
#include "perturbation.glsl"

const float FARTHEST = 12.0;  // cover in standard deviations, so that exp(r^2 / 2) is a float

// A share of the shorter half axis on screen, dilation included, as a length at the splat's depth;
// of splats around the camera, of the depth.
float mean_step(Projection o) {
    float shorter = sqrt(o.det / largest_variance(o.cov));
    return perturbation_of(PLANE_means) * o.p.z *
           min(2.0 * shorter / (camera.focal.x + camera.focal.y), 1.0);
}

float sigmoid(float x) { return 1.0 / (1.0 + exp(-x)); }

// How far the ellipse alpha >= 1/255 of `s` reaches from the mean of `o`, in standard deviations of
// `o`: at most the distance of the means plus the larger eigenvalue of cov(o)^-1 cov(s).
float reach_of(Projection o, vec3 conic, Projection p, float opacity) {
    vec2 d = p.mean - o.mean;
    float t = d.x + conic.y * d.y, away = sqrt(conic.x * t * t + conic.z * d.y * d.y);
    float half_trace =
        0.5 * (o.cov.z * p.cov.x - 2.0 * o.cov.y * p.cov.y + o.cov.x * p.cov.z) / o.det;
    float widest = half_trace + sqrt(max(half_trace * half_trace - p.det / o.det, 0.0));
    return away + sqrt(2.0 * log(opacity / ALPHA_MIN) * widest);
}

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats) return;
    keys[g] = NOT_VISIBLE;
    seen[g] = 0u;
    splat_differences[PAIR * counts.capacity + g] = 0.0;

    Projection middle, moved[2];
    Splat2D cover, two[2];
    vec3 mean = means(g), log_scale = log_scales(g);
    vec4 quat = quats(g);
    float logit = logit_opacities(g), opacity = sigmoid(logit), opacities[2];
    if (!splat2d_of(mean, quat, exp(log_scale), opacity, middle, cover)) return;

    uvec4 bits = sign_bits(PAIR, g);
    float step = mean_step(middle), reach = sqrt(2.0 * log(opacity / ALPHA_MIN));
    vec3 to_mean = step * signs_of(bits, NUMBER_means),
         to_scale = perturbation_of(PLANE_log_scales) * signs_of(bits, NUMBER_log_scales), n[2],
         color[2];
    vec4 to_quat = perturbation_of(PLANE_quats) *
                   vec4(signs_of(bits, NUMBER_quats), sign_of(bits, NUMBER_quats + 3u));
    float to_logit = perturbation_of(PLANE_logit_opacities) * sign_of(bits, NUMBER_logit_opacities);
    for (uint i = 0u; i < 2u; ++i) {
        float side = i == 0u ? 1.0 : -1.0;
        n[i] = normalize(mean + side * to_mean - camera.position);
        color[i] = vec3(0.5);
        opacities[i] = sigmoid(logit + side * to_logit);
        if (splat2d_of(mean + side * to_mean, quat + side * to_quat,
                       exp(log_scale + side * to_scale), opacities[i], moved[i], two[i])) {
            reach = max(reach, reach_of(middle, cover.conic, moved[i], opacities[i]));
        } else {
            two[i] = cover;
            opacities[i] = 0.0;  // no fragment passes
        }
    }
    for (uint k = 0u; k < SH_PLANES; ++k)
        if (k < (frame.sh_degree + 1u) * (frame.sh_degree + 1u)) {
            vec3 c = k == 0u ? sh0(g) : shN(k - 1u, g),
                 to_c = perturbation_of(PLANE_sh0 + k) * signs_of(bits, NUMBER_sh0 + 3u * k);
            color[0] += sh_basis_of(k, n[0]) * (c + to_c);
            color[1] += sh_basis_of(k, n[1]) * (c - to_c);
        }
    if (!finite(vec4(color[0], 0.0)) || !finite(vec4(color[1], step))) return;
    reach = min(1.0001 * reach, FARTHEST);
    opacity = ALPHA_MIN * exp(0.5 * reach * reach);
    quad_axes(middle.cov, middle.det, opacity, cover.axis1, cover.axis2);
    splats2d[g] = two[0];
    splats2d_minus[g] = two[1];
    splats2d_cover[g] = cover;
    colors2d[g] = vec4(max(color[0], vec3(0.0)), opacities[0]);
    colors2d_minus[g] = vec4(max(color[1], vec3(0.0)), opacities[1]);
    colors2d_cover[g] = vec4(0.0, 0.0, 0.0, opacity);
    mean_steps[g] = step;
    keys[g] = depth_key(middle.p.z, frame.near_plane);
    seen[g] = 1u;
}
