#version 300 es
// A quad around each splat, as large as its alpha is at least 1/255, drawn in the order of the attribute `splat`.
precision highp float;
precision highp int;
precision highp usampler2D;

uniform usampler2D place, paint;  // what project.frag wrote
uniform vec2 size;                // px
in uint splat;
out vec2 at;                      // standard deviations from the mean
flat out vec4 color;              // colour, opacity

void main() {
    int width = textureSize(place, 0).x;
    ivec2 texel = ivec2(int(splat) % width, int(splat) / width);
    uvec4 look = texelFetch(paint, texel, 0);
    color = vec4(unpackHalf2x16(look.y), unpackHalf2x16(look.z));
    float bound = sqrt(2.0 * log(max(255.0 * color.a, 1.0)));
    vec4 spot = uintBitsToFloat(texelFetch(place, texel, 0));
    vec2 along = spot.zw, across = vec2(-along.y, along.x) * (uintBitsToFloat(look.x) / max(length(along), 1e-30));
    at = bound * vec2(gl_VertexID & 1, gl_VertexID >> 1) * 2.0 - bound;
    vec2 px = spot.xy + at.x * along + at.y * across;
    gl_Position = color.a > 0.0 ? vec4(2.0 * px.x / size.x - 1.0, 1.0 - 2.0 * px.y / size.y, 0.0, 1.0) : vec4(2.0, 2.0, 0.0, 1.0);
}
