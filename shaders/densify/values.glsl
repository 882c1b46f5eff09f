// Numbers of a splat in planes of one, three or four, through the one type of pointer that a module
// has to them: compilers take pointers of two types for separate memory (MoltenVK).

float value1(uint plane, uint g) { return any_value_plane(planes.at[plane].value).at[g]; }

vec3 value3(uint plane, uint g) {
    any_value_plane v = any_value_plane(planes.at[plane].value);
    return vec3(v.at[3u * g], v.at[3u * g + 1u], v.at[3u * g + 2u]);
}

vec4 value4(uint plane, uint g) {
    any_value_plane v = any_value_plane(planes.at[plane].value);
    return vec4(v.at[4u * g], v.at[4u * g + 1u], v.at[4u * g + 2u], v.at[4u * g + 3u]);
}
