// <color>: divided, so that a target of 0..1 holds colours above 1. layers.glsl multiplies them again.
layout(constant_id = 19) const float COLOR_SCALE = 1.0;
vec3 color_of(vec3 color) { return min(color, vec3(LARGEST)) / COLOR_SCALE; }
