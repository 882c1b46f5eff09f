// One thread a splat: 3D Gaussian -> its projection, colour and depth key, or NOT_VISIBLE. A splat that has a number that is not finite is culled: it would
// spread through its pixels into the gradients of others.
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "contract/trained.glsl"
#include "sort/depth_key.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const uint SH_PLANES = 16u;
layout(constant_id = 2) const bool DEPTH = false;  // (depth, 1, 0) takes the place of the colour

UNIFORM_planes
VALUE_means(readonly)
VALUE_quats(readonly)
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_splat_words(writeonly)
BUFFER_colors2d(writeonly)
BUFFER_keys(writeonly)
#include "splat2d.glsl"
#include "sh.glsl"
// scale_of(g), opacity_of(g)
#include <given>
// sh_of(k, g)
#include <colors>
#include <kept>

vec3 color;
mat3 d_direction = mat3(0.0);  // of red, green and blue: here, where the coefficients are read, and not again in the backward pass

// Adds coefficients 1 to count of the higher bands: all are read before one is waited for.
void add_bands(const uint count, uint g, vec3 n) {
    vec3 c[15];
    for (uint i = 0u; i < count; ++i) c[i] = sh_of(i + 1u, g);
    for (uint i = 0u; i < count; ++i) {
        color += sh_basis_of(i + 1u, n) * c[i];
        d_direction += outerProduct(d_sh_basis_of(i + 1u, n), c[i]);
    }
}

void add_colors(uint g, vec3 n) {
    color += sh_basis_of(0u, n) * sh_of(0u, g);
    uint degree = min(frame.sh_degree, SH_PLANES > 9u ? 3u : SH_PLANES > 4u ? 2u : SH_PLANES > 1u ? 1u : 0u);
    if (SH_PLANES > 9u && degree == 3u) add_bands(15u, g, n);
    else if (SH_PLANES > 4u && degree == 2u) add_bands(8u, g, n);
    else if (SH_PLANES > 1u && degree == 1u) add_bands(3u, g, n);
}

const uint WORDS = 9u;  // of a Splat2D
shared float words[WORDS * GROUP];
shared bool written[GROUP];

// The workgroup's splats into splats2d: neighbouring threads write neighbouring words, where a thread that wrote its own splat would touch a cache line for each.
void write_splats(bool visible, Splat2D s) {
    uint t = gl_LocalInvocationID.x, first = group_index() * GROUP;
    float own[WORDS] = float[](s.mean.x, s.mean.y, s.conic.x, s.conic.y, s.conic.z, s.axis1.x, s.axis1.y, s.axis2.x, s.axis2.y);
    written[t] = visible;
    if (visible)
        [[unroll]] for (uint i = 0u; i < WORDS; ++i) words[WORDS * t + i] = own[i];
    barrier();
    [[unroll]] for (uint i = 0u; i < WORDS; ++i) {
        uint word = i * GROUP + t;
        if (written[word / WORDS]) splat_words[WORDS * first + word] = words[word];
    }
}

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    bool visible = false;
    Splat2D s = Splat2D(vec2(0.0), vec3(0.0), vec2(0.0), vec2(0.0));
    if (g < counts.splats) {
        float opacity = opacity_of(g);
        vec3 mean = means(g), scale = scale_of(g);
        vec4 quat = quats(g);
        Projection o;
        visible = splat2d_of(mean, quat, scale, opacity, o, s);
        if (visible) {
            color = DEPTH ? vec3(o.p.z, 1.0, 0.0) : vec3(0.5);
            if (!DEPTH) add_colors(g, normalize(mean - camera.position));
            visible = finite(vec4(color, 0.0));
        }
        colors2d[g] = visible ? vec4(max(color, vec3(0.0)), opacity) : vec4(0.0);
        keys[g] = visible ? depth_key(o.p.z, frame.near_plane) : NOT_VISIBLE;
        if (visible) keep(g, color, d_direction);
        else keep_nothing(g);
    }
    write_splats(visible, s);
}
