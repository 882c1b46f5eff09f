// <gradient> of optim/planes.comp for photographs, cameras and the scene: what a pass wrote for the
// item that the step saw, 0 for the others.
#include "optim/written.glsl"

void begin_gradients(Plane plane, uint first_item, uint items) {}

vec4 gradients_of(Plane plane, uint plane_index, uint i, uvec4 item, uint items) {
    return plane.source == GRADIENT_PLANE ? written_gradients(plane, i, item, items) : vec4(0.0);
}
