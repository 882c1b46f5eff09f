// One thread a splat: 3D Gaussian -> Splat2D and its depth key, or NOT_VISIBLE. Who has a number that is not finite is culled: it would
// spread through its pixels into the gradients of others.
#include "common.glsl"
layout(local_size_x = GROUP) in;
layout(constant_id = 0) const uint SH_PLANES = 16u;

BUFFER_means(readonly)
BUFFER_quats(readonly)
BUFFER_log_scales(readonly)
BUFFER_logit_opacities(readonly)
BUFFER_sh(readonly)
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_splats2d(writeonly)
BUFFER_keys(writeonly)
BUFFER_seen(writeonly)
BUFFER_d_geometry(writeonly)
#include "splat2d.glsl"
#include "sh.glsl"

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats) return;
    keys[g] = NOT_VISIBLE;
    splats2d[g].opacity = 0.0;
    seen[g] = 0u;

    Projection o;
    Splat2D s;
    vec3 mean = means[g];
    if (!splat2d_of(mean, quats[g], log_scales[g], logit_opacities[g], o, s)) return;

    vec3 n = normalize(mean - camera.position), color = vec3(0.5);
    mat3 d_direction = mat3(0.0);  // of red, green and blue: here, where the coefficients are read, and not again in the backward pass
    uint active_planes = min((frame.sh_degree + 1u) * (frame.sh_degree + 1u), SH_PLANES);
    for (uint k = 0u; k < SH_PLANES; ++k)
        if (k < active_planes) {
            vec3 c = sh[k * counts.stride + g];
            color += sh_basis_of(k, n) * c;
            d_direction += outerProduct(d_sh_basis_of(k, n), c);
        }

    if (!finite(vec4(color, 0.0))) return;
    s.color = max(color, vec3(0.0));
    splats2d[g] = s;
    keys[g] = floatBitsToUint(o.p.z);
    seen[g] = 1u + (color.r > 0.0 ? 2u : 0u) + (color.g > 0.0 ? 4u : 0u) + (color.b > 0.0 ? 8u : 0u);
    if (frame.sh_degree > 0u)
        for (uint i = 0u; i < 9u; ++i) d_geometry[i * counts.stride + g] = d_direction[i / 3u][i % 3u];
}
