// <seen>: the render, clamped, after an affine map of its colours.
const uint SEEN_PAIRS = 0u;
UNIFORM_color_map
void begin_seen() {}
vec3 seen(ivec2 at) {
    vec3 s = clamp(rendered(at), 0.0, 1.0);
    return vec3(dot(color_map.rows[0], vec4(s, 1.0)), dot(color_map.rows[1], vec4(s, 1.0)),
                dot(color_map.rows[2], vec4(s, 1.0)));
}
