// What take.comp left next to a plane, in its place.
#include "common.glsl"
#include "densify/resort/planes.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_moved(readonly)

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g >= counts.splats) return;
    any_value_plane values = any_value_plane(plane.value);
    for (uint i = plane.width * g; i < plane.width * (g + 1u); ++i) {
        if (role == 0u)
            values.at[i] = uintBitsToFloat(moved[i]);
        else
            moments().at[i] = moment_of(moved[i]);
    }
}
