// Values of the splats of a working set: from the model, every plane that the SH degree uses, or
// back to it, every plane that the step has moved.
#include "working/block.glsl"
#include "contract/trained.glsl"

layout(constant_id = 0) const bool BACK = false;
UNIFORM_planes
UNIFORM_model_planes
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

void main() {
    uint block = group_index();
    if (!open_block(block)) return;
    for (uint p = 0u; p < planes.of_splats; ++p) {
        if (!moves(p)) continue;
        uint width = planes.at[p].width;  // 0 for a plane that this SH degree lacks
        any_value_plane own = any_value_plane(planes.at[p].value),
                        whole = any_value_plane(model_planes.at[p].value);
        for (uint i = gl_LocalInvocationID.x; i < BLOCK * width; i += GROUP) {
            uint place = i / width;
            if (!is_shown(place)) continue;
            uint rank = rank_of(place), there = BLOCK * width * block + i;
            if (rank >= counts.capacity) continue;
            uint here = width * rank + i - width * place;
            if (BACK) whole.at[there] = own.at[here];
            else own.at[here] = whole.at[there];
        }
    }
}
