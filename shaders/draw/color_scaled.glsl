// <color>: divided, so that what a target of 0..1 holds reaches farther; see layers.glsl.
layout(constant_id = 19) const float COLOR_SCALE = 1.0;
vec3 color_of(vec3 color) { return min(color, vec3(LARGEST)) / COLOR_SCALE; }
