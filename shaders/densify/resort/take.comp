// A plane in the new order of the splats, next to it.
#include "common.glsl"
#include "contract/sort.glsl"
#include "densify/resort/planes.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_order(readonly)
BUFFER_moved(writeonly)

void main() {
    uint to = group_index() * GROUP + gl_LocalInvocationID.x;
    if (to >= counts.splats) return;
    uint from = order[to], width = plane.width;  // 0 for a plane that this SH degree lacks
    any_value_plane values = any_value_plane(plane.value);
    for (uint c = 0u; c < width; ++c)
        moved[width * to + c] = role == 0u ? floatBitsToUint(values.at[width * from + c])
                                           : bits_of(moments().at[width * from + c]);
}
