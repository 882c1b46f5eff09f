// A visible splat's proxy geometry, pulled through `order`: no vertex buffer.
#include "draw/outline.glsl"
#include "draw/shape.glsl"

void main() {
    Drawn d = drawn_as(uint(gl_VertexIndex) / VERTICES);
    Splat2D s = splats2d[d.splat];
    vec4 color = colors2d[d.splat];
    gl_Position = clip(vertex_of(s, uint(gl_VertexIndex) % VERTICES), d);
    v_mean = s.mean;
    v_conic = s.conic;
    v_color = color_of(color.rgb);
    v_opacity = color.a;
    v_splat = name_of(d);
    v_top = top_of(d.segment);
}
