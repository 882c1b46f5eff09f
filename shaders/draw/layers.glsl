// Pixels of the depth segments, (premultiplied colour, transmittance), from `layers`.
#include "draw/segments.glsl"
layout(constant_id = 19) const float COLOR_SCALE = 1.0;  // by which colours were divided

// Of a segment at a pixel of the canvas, or the nearest that there is.
vec4 layer(ivec2 at, uint segment) {
    ivec2 size = textureSize(layers, 0) / ivec2(1, SEGMENTS);
    return texelFetch(layers, min(at, size - 1) + ivec2(0, segment * uint(size.y)), 0) * vec4(vec3(COLOR_SCALE), 1.0);
}

vec4 behind(vec4 front, vec4 back) { return vec4(front.rgb + front.a * back.rgb, front.a * back.a); }
