// <sink> of optim/planes.comp that leaves the gradients in planes, for the Python API.
void begin_sink() {}
void end_sink(Plane plane, uint plane_index) {}

void sink(Plane plane, uint plane_index, uint i, uvec4 item, uint items) {
    if (stand_already(plane, item, items)) return;
    any_gradient_plane(plane.gradient).at[i] = gradients_of(plane, plane_index, i, item, items);
}

void sink_two(Plane plane, uint plane_index, uint i, uvec4 item, uint k, uvec4 item_k, uint items) {
    sink(plane, plane_index, i, item, items);
    sink(plane, plane_index, k, item_k, items);
}
