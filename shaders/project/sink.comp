// Gradients of all 59 parameters, handed to <sink>: stored, or taken by Adam. A workgroup takes GROUP splats: their geometry, or one plane of their
// SH, as a stream of vec4 in the order of memory. Workgroups of the same splats run together (x is the plane), so that the gradients they share
// are in the cache. Rows that were not visible hand over zeros: the published Adam moves every splat by its momentum at every step.
#include "common.glsl"
#include "sh.glsl"

const uint LANES = 3u * GROUP / 4u;  // one for four floats of GROUP vec3
layout(local_size_x = LANES) in;
layout(constant_id = 0) const bool VISIBLE_ONLY = false;  // the others are left alone instead

BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_seen(readonly)
BUFFER_d_geometry(readonly)
BUFFER_d_colors(readonly)
#include <sink>

bool visible(uint g) { return g < counts.splats && seen[g] != 0u; }
bool taken(uint g) { return VISIBLE_ONLY ? visible(g) : g < counts.splats; }

// Of a row of vec3, a and b those of two neighbours: four floats, the first of which is float r of a.
vec4 four(uint r, vec3 a, vec3 b) { return r == 0u ? vec4(a, b.x) : r == 1u ? vec4(a.yz, b.xy) : vec4(a.z, b); }
bvec4 four(uint r, bool a, bool b) { return bvec4(a, r < 2u ? a : b, r == 0u ? a : b, b); }

float geometry(uint g, uint i) { return visible(g) ? d_geometry[i * counts.stride + g] : 0.0; }
vec3 geometry3(uint g, uint i) { return vec3(geometry(g, i), geometry(g, i + 1u), geometry(g, i + 2u)); }

void geometry_of_group(uint first, uint t) {
    uint g = first + 4u * t / 3u, r = t % 3u, at = first * 3u / 4u + t;  // 4 t = 3 (4 t / 3) + t mod 3
    if (g < counts.splats) {
        bvec4 both = four(r, taken(g), taken(g + 1u));
        sink_means(at, four(r, geometry3(g, 0u), geometry3(g + 1u, 0u)), both);
        sink_log_scales(at, four(r, geometry3(g, 7u), geometry3(g + 1u, 7u)), both);
    }
    for (g = first + t; g < min(first + GROUP, counts.splats); g += LANES)
        sink_quats(g, vec4(geometry3(g, 3u), geometry(g, 6u)), bvec4(taken(g)));
    g = first + 4u * t;
    if (4u * t < GROUP && g < counts.splats) {
        uvec4 four = g + uvec4(0u, 1u, 2u, 3u);
        vec4 d = vec4(geometry(four.x, 10u), geometry(four.y, 10u), geometry(four.z, 10u), geometry(four.w, 10u));
        sink_logit_opacities(g / 4u, d, bvec4(taken(four.x), taken(four.y), taken(four.z), taken(four.w)));
    }
}

vec3 sh_of(uint k, uint g) {
    bool in_use = k < (frame.sh_degree + 1u) * (frame.sh_degree + 1u);
    return visible(g) && in_use ? sh_basis_of(k, d_colors[counts.stride + g]) * d_colors[g] : vec3(0.0);
}

void main() {
    uint t = gl_LocalInvocationID.x, first = (gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y) * GROUP;
    if (gl_WorkGroupID.x == 0u) {
        geometry_of_group(first, t);
        return;
    }
    uint k = gl_WorkGroupID.x - 1u, g = first + 4u * t / 3u, r = t % 3u;
    if (g < counts.splats) sink_sh(k, first * 3u / 4u + t, four(r, sh_of(k, g), sh_of(k, g + 1u)), four(r, taken(g), taken(g + 1u)));
}
