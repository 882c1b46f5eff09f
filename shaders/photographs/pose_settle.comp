// After a step of Adam: what all cameras have in common, a turn and a shift in the world's frame,
// belongs to the scene, so its mean is taken away; then no camera is farther from the scene's poses
// than the limits. One workgroup.
#include "common.glsl"
#include "contract/train.glsl"
#include "contract/trained.glsl"
layout(local_size_x = GROUP) in;
layout(constant_id = 1) const float MOST_TURN = 1.0;   // rad
layout(constant_id = 2) const float MOST_SHIFT = 1.0;  // world units
layout(constant_id = 3) const bool FREE = false;       // the scene is what stays as it is
UNIFORM_planes
VALUE_turn(restrict)
VALUE_shift(restrict)
BUFFER_views(readonly)
BUFFER_rates(readonly)
#include "loss/sum.glsl"

mat3 given_rotation(uint i) {
    return transpose(mat3(views[i].world_to_camera[0].xyz, views[i].world_to_camera[1].xyz,
                          views[i].world_to_camera[2].xyz));
}
vec3 within(vec3 v, float most) {
    float len = length(v);
    return len > most ? v * (most / len) : v;
}

vec3 mean_of(vec3 sum, uint items) {
    sum = sum_group(sum);
    if (gl_LocalInvocationID.x == 0u) sum_lines[0] = sum / float(items);
    barrier();
    vec3 mean = sum_lines[0];
    barrier();
    return mean;
}

void main() {
    uint items = planes.at[PLANE_turn].items;
    if (items == 0u || rates[PLANE_turn] == 0.0) return;
    vec3 turned = vec3(0.0), shifted = vec3(0.0);
    for (uint i = gl_LocalInvocationID.x; i < items; i += GROUP) {
        mat3 to_world = transpose(given_rotation(i));
        turned += to_world * turn(i);
        shifted += to_world * shift(i);
    }
    turned = FREE ? vec3(0.0) : mean_of(turned, items);
    shifted = FREE ? vec3(0.0) : mean_of(shifted, items);
    for (uint i = gl_LocalInvocationID.x; i < items; i += GROUP) {
        mat3 to_camera = given_rotation(i);
        turn(i) = within(turn(i) - to_camera * turned, MOST_TURN);
        shift(i) = within(shift(i) - to_camera * shifted, MOST_SHIFT);
    }
}
