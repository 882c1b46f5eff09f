// A sample of the splats joins their averages over steps, plane by plane: sample k of them has the
// weight 1 / (k + 1), so that all count alike. Those are taken every EVERY steps from step SINCE
// on, where the averages began. Floor: two floats read and one written for each number.
#include "common.glsl"
#include "contract/trained.glsl"

const uint LANES = 3u * GROUP / 4u;  // as in optim/planes.comp
layout(local_size_x = LANES) in;
layout(constant_id = 0) const uint SINCE = 0u;
layout(constant_id = 1) const uint EVERY = 1u;
UNIFORM_planes
BUFFER_frame(readonly)
BUFFER_counts(readonly)
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer any_value_plane {
    vec4 at[];
};
layout(buffer_reference, scalar, buffer_reference_align = 16) restrict buffer any_average_plane {
    vec4 at[];
};

void main() {
    Plane plane = planes.at[gl_WorkGroupID.x];
    uint first_item = (gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y) * GROUP;
    if (first_item >= counts.splats || plane.width == 0u) return;
    float share = 1.0 / float((frame.step - min(frame.step, SINCE)) / EVERY + 1u);
    any_value_plane values = any_value_plane(plane.value);
    any_average_plane averages = any_average_plane(plane.average);
    uint first = first_item / 4u * plane.width,
         behind = (min(GROUP, counts.splats - first_item) * plane.width + 3u) / 4u;
    for (uint i = first + gl_LocalInvocationID.x; i < first + behind; i += LANES)
        averages.at[i] = mix(averages.at[i], values.at[i], share);
}
