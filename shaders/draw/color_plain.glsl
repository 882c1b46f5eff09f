// <color>: the splat's own.
vec3 color_of(vec3 color) { return min(color, vec3(LARGEST)); }
