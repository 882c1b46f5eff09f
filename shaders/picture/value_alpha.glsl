// <value>: opacity.
vec2 value_of(vec4 pixel) { return vec2(1.0 - pixel.a, 1.0); }
