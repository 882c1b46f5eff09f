// <sink> of optim/planes.comp that leaves the gradients in planes, for the Python API.
layout(constant_id = 30) const bool ADDS = false;  // to those of other views
void begin_sink() {}
void end_sink(Plane plane, uint plane_index) {}

void sink(Plane plane, uint plane_index, uint i, uvec4 item, uint items) {
    if (stand_already(plane, item, items)) return;
    if (ADDS && plane.source == GRADIENT_PLANE) return;
    vec4 d = gradients_of(plane, plane_index, i, item, items);
    if (!ADDS) any_gradient_plane(plane.gradient).at[i] = d;
    else if (d != vec4(0.0)) any_gradient_plane(plane.gradient).at[i] += d;
}

void sink_two(Plane plane, uint plane_index, uint i, uvec4 item, uint k, uvec4 item_k, uint items) {
    sink(plane, plane_index, i, item, items);
    sink(plane, plane_index, k, item_k, items);
}
