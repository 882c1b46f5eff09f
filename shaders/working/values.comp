// Values of the splats of a working set: from the model, every plane that the SH degree uses, or
// back to it, every plane that the step has moved. Lanes take neighbouring numbers of a plane, so
// that what crosses the bus is contiguous where splats are.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/working.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const bool BACK = false;
UNIFORM_planes
UNIFORM_model_planes
BUFFER_counts(readonly)
BUFFER_working(readonly)
layout(buffer_reference, scalar, buffer_reference_align = 4) restrict buffer any_value_plane {
    float at[];
};
// moves(p)
#include <moves>
#ifndef FILLED_moves
BUFFER_frame(readonly)
bool moves(uint p) {
    return planes.at[p].band < (frame.sh_degree + 1u) * (frame.sh_degree + 1u);
}
#endif

shared uint splats[GROUP];

void main() {
    uint first = group_index() * GROUP, t = gl_LocalInvocationID.x;
    if (first >= counts.splats) return;
    uint n = min(GROUP, counts.splats - first);
    if (t < n) splats[t] = working[first + t];
    barrier();
    for (uint p = 0u; p < planes.of_splats; ++p) {
        if (!moves(p)) continue;
        uint width = planes.at[p].width;  // 0 for a plane that this SH degree lacks
        any_value_plane own = any_value_plane(planes.at[p].value),
                        whole = any_value_plane(model_planes.at[p].value);
        for (uint i = t; i < n * width; i += GROUP) {
            uint there = width * splats[i / width] + i % width, here = width * first + i;
            if (BACK) whole.at[there] = own.at[here];
            else own.at[here] = whole.at[there];
        }
    }
}
