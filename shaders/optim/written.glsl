// Gradients that a pass wrote into their plane, numbers 4 i to 4 i + 3, which belong to `item`; 0
// for items that were not seen, whose places are stale.
vec4 written_gradients(Plane plane, uint i, uvec4 item, uint items) {
    bvec4 seen_ones = visible(item, items);
    return any(seen_ones) ? mix(vec4(0.0), any_gradient_plane(plane.gradient).at[i], seen_ones)
                          : vec4(0.0);
}

// Whether all four are where the sink would store them.
bool stand_already(Plane plane, uvec4 item, uint items) {
    return plane.source == GRADIENT_PLANE && all(visible(item, items));
}
