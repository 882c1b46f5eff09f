// Pixels of the depth segments, (premultiplied colour, transmittance), from `layers`. The includer
// has `frame`.
#include "draw/segments.glsl"
// Colours are differences from the background, see color_shifted.glsl.
layout(constant_id = 20) const bool SHIFTED = false;

// Of a segment at a pixel of the canvas, or the nearest that there is.
vec4 layer(ivec2 at, uint segment) {
    ivec2 size = textureSize(layers, 0) / ivec2(1, SEGMENTS);
    vec4 drawn = texelFetch(layers, min(at, size - 1) + ivec2(0, segment * uint(size.y)), 0);
    return vec4(drawn.rgb + (SHIFTED ? (1.0 - drawn.a) * frame.background : vec3(0.0)), drawn.a);
}

vec4 behind(vec4 front, vec4 back) {
    return vec4(front.rgb + front.a * back.rgb, front.a * back.a);
}
