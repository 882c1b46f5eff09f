// A visible splat's outline as a strip from one point (Yuan & He 2025).
#include "draw/outline.glsl"
#include <shape>

layout(points) in;
layout(triangle_strip, max_vertices = 4) out;

void main() {
    uint segment, g = splat_at(uint(gl_PrimitiveIDIn), segment);
    Splat2D s = splats2d[g];
    vec4 color = colors2d[g];
    for (uint i = 0u; i < VERTICES; ++i) {
        gl_Position = clip(vertex_of(s, i), segment);
        v_mean = s.mean;
        v_conic = s.conic;
        v_color = min(color.rgb, vec3(LARGEST));
        v_opacity = color.a;
        v_splat = g;
        v_top = top_of(segment);
        EmitVertex();
    }
}
