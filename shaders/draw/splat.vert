// A visible splat's outline, pulled through `order`: no vertex buffer.
#include "draw/outline.glsl"
#include <shape>

void main() {
    uint segment, g = splat_at(uint(gl_VertexIndex) / VERTICES, segment);
    Splat2D s = splats2d[g];
    vec4 color = colors2d[g];
    gl_Position = clip(vertex_of(s, uint(gl_VertexIndex) % VERTICES), segment);
    v_mean = s.mean;
    v_conic = s.conic;
    v_color = min(color.rgb, vec3(LARGEST));
    v_opacity = color.a;
    v_splat = g;
    v_top = top_of(segment);
}
