// Moves every item of the planes that are kept centred by minus the mean of all: what is common to
// all photographs belongs to the scene. A workgroup a plane.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/train.glsl"
layout(local_size_x = GROUP) in;
layout(constant_id = 1) const uint FIRST_PLANE = 0u;
UNIFORM_planes
BUFFER_rates(readonly)
layout(buffer_reference, scalar, buffer_reference_align = 4) restrict buffer any_value_plane {
    float at[];
};
#include "loss/sum.glsl"

void main() {
    uint index = FIRST_PLANE + gl_WorkGroupID.x, t = gl_LocalInvocationID.x;
    Plane plane = planes.at[index];
    if (plane.centred == 0u || plane.items == 0u || rates[index] == 0.0) return;
    any_value_plane values = any_value_plane(plane.value);
    for (uint c = 0u; c < plane.width; ++c) {
        float sum = 0.0;
        for (uint i = t; i < plane.items; i += GROUP) sum += values.at[i * plane.width + c];
        sum = sum_group(vec3(sum)).x;
        if (t == 0u) sum_lines[0].x = sum;
        barrier();
        float mean = sum_lines[0].x / float(plane.items);
        barrier();
        for (uint i = t; i < plane.items; i += GROUP) values.at[i * plane.width + c] -= mean;
    }
}
