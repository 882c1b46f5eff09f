// Gradients of all 59 parameters, handed to <sink>: stored, or taken by Adam. A workgroup takes GROUP splats: their geometry, one a thread, or
// one plane of their SH, whose 3 GROUP floats go to the threads in the order of memory. Workgroups of the same splats run together (x is the
// plane), so that the gradients they share are in the cache.
// Rows that were not visible hand over zeros: the published Adam moves every splat by its momentum at every step.
#include "common.glsl"
#include "sh.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const bool VISIBLE_ONLY = false;  // the others are left alone instead

BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_seen(readonly)
BUFFER_d_geometry(readonly)
BUFFER_d_colors(readonly)
#include <sink>

void geometry(uint g) {
    if (g >= counts.splats) return;
    bool visible = seen[g] != 0u;
    if (VISIBLE_ONLY && !visible) return;
    GeometryGradient d = GeometryGradient(vec3(0.0), vec4(0.0), vec3(0.0), 0.0);
    if (visible) d = d_geometry[g];
    sink_geometry(g, d.mean, d.quat, d.log_scale, d.logit);
}

void sh_plane(uint k, uint first, uint t) {
    uvec3 row = uvec3(0u), channel = uvec3(0u);
    vec3 d_sh_k = vec3(0.0);
    bvec3 taken = bvec3(false);
    bool in_use = k < (frame.sh_degree + 1u) * (frame.sh_degree + 1u);
    [[unroll]] for (uint j = 0u; j < 3u; ++j) {
        uint i = GROUP * j + t, g = first + i / 3u;
        if (g < counts.splats) {
            bool visible = seen[g] != 0u;
            row[j] = k * counts.capacity + g;
            channel[j] = i % 3u;
            taken[j] = visible || !VISIBLE_ONLY;
            if (visible && in_use) d_sh_k[j] = sh_basis_of(k, d_colors[g].direction) * d_colors[g].color[channel[j]];
        }
    }
    sink_sh(k, row, channel, d_sh_k, taken);
}

void main() {
    uint t = gl_LocalInvocationID.x, first = (gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y) * GROUP, plane = gl_WorkGroupID.x;
    if (plane == 0u) geometry(first + t);
    else sh_plane(plane - 1u, first, t);
}
