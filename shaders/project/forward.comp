// One thread a splat: 3D Gaussian -> its projection, colour and depth key, or NOT_VISIBLE. A splat
// that has a number that is not finite is culled: it would spread through its pixels into the
// gradients of others.
#include "common.glsl"
#include "contract/trained.glsl"
#include "sort/depth_key.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const uint SH_PLANES = 16u;
layout(constant_id = 2) const bool DEPTH = false;  // (depth, its slopes) for the colour
layout(constant_id = 3) const float FRONT = 0.0;   // depth is so many deviations before the middle
layout(constant_id = 4) const bool SHRUNK = false;  // splats may be shown smaller than they are

UNIFORM_planes
VALUE_means(readonly)
VALUE_quats(readonly)
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_splats2d(writeonly)
BUFFER_colors2d(writeonly)
BUFFER_keys(writeonly)
#include "splat2d.glsl"
#include "sh.glsl"
// scale_of(g), opacity_of(g)
#include "project/given.glsl"
// sh_of(k, g)
#include <colors>
#ifndef FILLED_colors
VALUE_sh0(readonly)
VALUE_shN(readonly)
vec3 sh_of(uint k, uint g) { return k == 0u ? sh0(g) : shN(k - 1u, g); }
#endif
#include <kept>
#ifndef FILLED_kept
void keep_nothing(uint g) {}
void keep(uint g, vec3 color, mat3 d_direction) {}
#endif

vec3 color;
// Of red, green and blue: here, where the coefficients are read, and not again in the backward
// pass.
mat3 d_direction = mat3(0.0);

// Adds coefficients first, first + 1, ... of the higher bands: all are read before one is waited
// for.
void add_bands(uint first, const uint count, uint g, vec3 n) {
    vec3 c[7];
    for (uint i = 0u; i < count; ++i) c[i] = sh_of(first + i, g);
    for (uint i = 0u; i < count; ++i) {
        color += sh_basis_of(first + i, n) * c[i];
        d_direction += outerProduct(d_sh_basis_of(first + i, n), c[i]);
    }
}

void add_colors(uint g, vec3 n) {
    color += sh_basis_of(0u, n) * sh_of(0u, g);
    if (SH_PLANES > 1u && frame.sh_degree > 0u) add_bands(1u, 3u, g, n);
    if (SH_PLANES > 4u && frame.sh_degree > 1u) add_bands(4u, 5u, g, n);
    if (SH_PLANES > 9u && frame.sh_degree > 2u) add_bands(9u, 7u, g, n);
}

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats) return;
    float opacity = opacity_of(g);
    vec3 mean = means(g), scale = scale_of(g);
    if (SHRUNK) {
        scale *= 1.0 - frame.shrunk;
        if (frame.shrunk == 1.0) opacity = 1.0;  // points are all seen
    }
    vec4 quat = quats(g);
    Projection o;
    Splat2D s;
    bool visible = splat2d_of(mean, quat, scale, opacity, o, s);
    if (visible) {
        color = DEPTH ? vec3(o.p.z - FRONT * depth_deviation(o), depth_slopes(o)) : vec3(0.5);
        if (!DEPTH) add_colors(g, normalize(mean - camera.position));
        visible = finite(vec4(color, 0.0));
    }
    if (!visible) {
        keys[g] = NOT_VISIBLE;
        keep_nothing(g);
        return;
    }
    splats2d[g] = s;
    colors2d[g] = vec4(DEPTH ? color : max(color, vec3(0.0)), opacity);
    keys[g] = depth_key(o.p.z, frame.near_plane);
    keep(g, color, d_direction);
}
