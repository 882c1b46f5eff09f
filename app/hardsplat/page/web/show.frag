#version 300 es
// The blended splats over the background, enlarged where they were drawn coarser than the canvas.
precision highp float;

uniform sampler2D drawn;
uniform vec2 canvas;      // px
uniform vec3 background;
out vec4 color;

void main() {
    vec4 c = texture(drawn, gl_FragCoord.xy / canvas);
    color = vec4(c.rgb + (1.0 - c.a) * background, 1.0);
}
