// Two triangles a visible splat, pulled through `order`: no vertex buffer, no geometry shader.
#include "contract.glsl"
#define VARYING out
#include "draw/varyings.glsl"

layout(constant_id = 0) const bool BACK_TO_FRONT = false;
layout(constant_id = 1) const float LARGEST = 1.0;  // colour that the target can hold: one beyond it would undo the subtraction of the backward pass
layout(constant_id = 2) const uint CANVAS_WIDTH = 1u;
layout(constant_id = 3) const uint CANVAS_HEIGHT = 1u;
layout(constant_id = 4) const uint BLOCK_W = 1u;  // pixels that a fragment stands for
layout(constant_id = 5) const uint BLOCK_H = 1u;

BUFFER_counts(readonly)
BUFFER_splats2d(readonly)
BUFFER_order(readonly)

const vec2 CORNERS[6] = vec2[](vec2(-1, -1), vec2(1, -1), vec2(-1, 1), vec2(-1, 1), vec2(1, -1), vec2(1, 1));

void main() {
    uint rank = uint(gl_VertexIndex) / 6u;
    uint g = order[BACK_TO_FRONT ? counts.visible - 1u - rank : rank];
    Splat2D s = splats2d[g];
    vec2 corner = CORNERS[uint(gl_VertexIndex) % 6u];
    vec2 axis1 = s.axis1, axis2 = s.axis2;
    if (BLOCK_W * BLOCK_H > 1u) {  // drawn where a block's centre is inside: reach as far out as its outermost pixel centres lie from it
        vec2 reach = 0.5 * vec2(BLOCK_W - 1u, BLOCK_H - 1u), e1 = normalize(axis1), e2 = normalize(axis2);
        axis1 += e1 * dot(reach, abs(e1));
        axis2 += e2 * dot(reach, abs(e2));
    }
    vec2 px = s.mean + corner.x * axis1 + corner.y * axis2;
    gl_Position = vec4(px / vec2(CANVAS_WIDTH, CANVAS_HEIGHT) * 2.0 - 1.0, 0.0, 1.0);
    v_mean = s.mean;
    v_conic = s.conic;
    v_color = min(s.color, vec3(LARGEST));
    v_opacity = s.opacity;
    v_splat = g;
}
