// <value>: expected depth, sum w z / sum w, from the colour (z, 1, 0) of the splats; and sum w.
vec2 value_of(vec4 pixel) { return pixel.g > 0.0 ? vec2(pixel.r / pixel.g, pixel.g) : vec2(0.0); }
