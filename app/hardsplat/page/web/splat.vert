#version 300 es
// A quad around each splat, as large as its alpha is at least 1/255. An instance is BATCH splats in the order of drawing, four vertices each.
precision highp float;
precision highp int;
precision highp usampler2D;

uniform usampler2D order;         // index of a splat by its rank
uniform usampler2D place, paint;  // what project.frag wrote
uniform vec2 size;                // px
uniform int count;                // ranks there are
out vec2 at;                      // standard deviations from the mean
flat out vec4 color;              // colour, opacity

ivec2 texel(int i) { return ivec2(i & ((1 << LOG_WIDTH) - 1), i >> LOG_WIDTH); }

void main() {
    gl_Position = vec4(2.0, 2.0, 0.0, 1.0);  // outside: nothing is drawn
    at = vec2(0.0);
    color = vec4(0.0);
    int rank = gl_InstanceID * BATCH + gl_VertexID / 4;
    if (rank >= count) return;
    ivec2 splat = texel(int(texelFetch(order, texel(rank), 0).x));
    uvec4 look = texelFetch(paint, splat, 0);
    color = vec4(unpackHalf2x16(look.y), unpackHalf2x16(look.z));
    if (color.a == 0.0) return;
    float bound = sqrt(2.0 * log(max(255.0 * color.a, 1.0)));
    vec4 spot = uintBitsToFloat(texelFetch(place, splat, 0));
    vec2 along = spot.zw, across = vec2(-along.y, along.x) * (uintBitsToFloat(look.x) / max(length(along), 1e-30));
    at = bound * (vec2(gl_VertexID & 1, (gl_VertexID >> 1) & 1) * 2.0 - 1.0);
    vec2 px = spot.xy + at.x * along + at.y * across;
    gl_Position = vec4(2.0 * px.x / size.x - 1.0, 1.0 - 2.0 * px.y / size.y, 0.0, 1.0);
}
