#version 300 es
// Premultiplied colour and alpha of a splat at a pixel.
precision highp float;

in vec2 at;
flat in vec4 color;
out vec4 blended;

void main() {
    float alpha = color.a * exp(-0.5 * dot(at, at));
    alpha = alpha < 1.0 / 255.0 ? 0.0 : min(alpha, 0.99);
    blended = vec4(color.rgb * alpha, alpha);
}
