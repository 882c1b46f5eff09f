// A visible splat's proxy geometry as a strip from one point (Yuan & He 2025).
#include "draw/outline.glsl"
#include "draw/shape.glsl"

layout(points) in;
layout(triangle_strip, max_vertices = 4) out;

void main() {
    Drawn d = drawn_as(uint(gl_PrimitiveIDIn));
    Splat2D s = splats2d[d.splat];
    vec4 color = colors2d[d.splat];
    for (uint i = 0u; i < VERTICES; ++i) {
        gl_Position = clip(vertex_of(s, i), d);
        v_mean = s.mean;
        v_conic = s.conic;
        v_color = color_of(color.rgb);
        v_opacity = color.a;
        v_splat = name_of(d);
        v_top = top_of(d.segment);
        EmitVertex();
    }
}
