#version 300 es
// Puts depth in front of all splats where a pixel is finished: what lies behind would change it by less than half a step of 8 bits.
precision highp float;

const float FINISHED = 0.998;
uniform sampler2D drawn;

void main() {
    if (texelFetch(drawn, ivec2(gl_FragCoord.xy), 0).a < FINISHED) discard;
}
