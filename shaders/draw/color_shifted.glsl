// <color>: as a difference from the background, for targets with fine steps around 0. Splats that look like the background, of which a white one is full, then leave what they
// change of it, and not its roundings; see layers.glsl.
BUFFER_frame(readonly)
vec3 color_of(vec3 color) { return min(color, vec3(LARGEST)) - frame.background; }
