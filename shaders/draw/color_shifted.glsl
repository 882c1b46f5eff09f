// <color>: as a difference from the background. The target has its finest steps around 0, so it
// keeps the little that splats change which look like the background. Their colours themselves
// would be rounded to that of the background. layers.glsl adds the background again.
BUFFER_frame(readonly)
vec3 color_of(vec3 color) { return min(color, vec3(LARGEST)) - frame.background; }
