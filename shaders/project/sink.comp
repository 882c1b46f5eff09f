// Gradients of all 59 parameters, from <gradient>, handed to <sink>: stored, or taken by Adam. A workgroup takes GROUP splats: their geometry, or one plane of their
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
#include <gradient>

bool visible(uint g) { return g < counts.splats && seen[g] != 0u; }
bool taken(uint g) { return VISIBLE_ONLY ? visible(g) : g < counts.splats; }

// Of a row of vec3, a and b those of two neighbours: four floats, the first of which is float r of a.
vec4 four(uint r, vec3 a, vec3 b) { return r == 0u ? vec4(a, b.x) : r == 1u ? vec4(a.yz, b.xy) : vec4(a.z, b); }
bvec4 four(uint r, bool a, bool b) { return bvec4(a, r < 2u ? a : b, r == 0u ? a : b, b); }

float geometry(uint g, uint i) { return visible(g) ? geometry_of(g, i) : 0.0; }
vec3 geometry3(uint g, uint i) { return vec3(geometry(g, i), geometry(g, i + 1u), geometry(g, i + 2u)); }

vec4 gradients3(uint g, uint r, uint i) { return four(r, geometry3(g, i), geometry3(g + 1u, i)); }
bvec4 taken3(uint g, uint r) { return four(r, taken(g), taken(g + 1u)); }
vec4 gradients_of_quat(uint g) { return vec4(geometry3(g, 3u), geometry(g, 6u)); }
vec4 gradients_of_logits(uint g) { return vec4(geometry(g, 10u), geometry(g + 1u, 10u), geometry(g + 2u, 10u), geometry(g + 3u, 10u)); }
bvec4 taken4(uint g) { return bvec4(taken(g), taken(g + 1u), taken(g + 2u), taken(g + 3u)); }

vec3 sh_of(uint k, uint g) {
    bool in_use = k < (frame.sh_degree + 1u) * (frame.sh_degree + 1u);
    return visible(g) && in_use ? plane_of(k, g) : vec3(0.0);
}
vec4 gradients_of_sh(uint k, uint g, uint r) { return four(r, sh_of(k, g), sh_of(k, g + 1u)); }

// Takes four floats at `i` of a row. It asks for their gradients after it has begun to read what is its own, which comes from farther away.
#include <sink>

void main() {
    uint t = gl_LocalInvocationID.x, first = (gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y) * GROUP;
    uint g = first + 4u * t / 3u, r = t % 3u, i = first * 3u / 4u + t;  // 4 t = 3 (4 t / 3) + t mod 3
    if (gl_WorkGroupID.x > 0u) {
        if (g < counts.splats) sink_sh(gl_WorkGroupID.x - 1u, i, g, r);
        return;
    }
    if (g < counts.splats) {
        sink_means(i, g, r);
        sink_log_scales(i, g, r);
    }
    for (g = first + t; g < min(first + GROUP, counts.splats); g += LANES) sink_quats(g);
    g = first + 4u * t;
    if (4u * t < GROUP && g < counts.splats) sink_logit_opacities(g / 4u, g);
}
