// Moments of the splats of a working set, of every plane that the step moves: from the model, or
// back to it.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/working.glsl"
#include <moments>

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const bool BACK = false;
UNIFORM_planes
UNIFORM_model_planes
BUFFER_counts(readonly)
BUFFER_working(readonly)
layout(buffer_reference, scalar, buffer_reference_align = 2) restrict buffer any_moment_plane {
    MOMENT at[];
};
#include "working/moves.glsl"

shared uint splats[GROUP];

void main() {
    uint first = group_index() * GROUP, t = gl_LocalInvocationID.x;
    if (first >= counts.splats) return;
    uint n = min(GROUP, counts.splats - first);
    if (t < n) splats[t] = working[first + t];
    barrier();
    for (uint p = 0u; p < planes.of_splats; ++p) {
        if (!moves(p)) continue;
        uint width = planes.at[p].width;
        any_moment_plane m = any_moment_plane(planes.at[p].first),
                         v = any_moment_plane(planes.at[p].second),
                         whole_m = any_moment_plane(model_planes.at[p].first),
                         whole_v = any_moment_plane(model_planes.at[p].second);
        for (uint i = t; i < n * width; i += GROUP) {
            uint there = width * splats[i / width] + i % width, here = width * first + i;
            if (BACK) {
                whole_m.at[there] = m.at[here];
                whole_v.at[there] = v.at[here];
            } else {
                m.at[here] = whole_m.at[there];
                v.at[here] = whole_v.at[there];
            }
        }
    }
}
