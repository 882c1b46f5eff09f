// Sums of what a linear fit of colours needs: of s = (r, g, b, 1) of the clamped render and w of
// the photograph, s s^T, s w^T and w^2, over one half of the image: even workgroups have the left
// half, odd ones the right. Floor: read target 4..16 B and photograph 4 B a pixel.
#extension GL_EXT_control_flow_attributes : require
#include "contract/loss.glsl"
layout(local_size_x = GROUP) in;
BUFFER_color_moments(writeonly)
#include "loss/pixel.glsl"
#include "loss/sum.glsl"

const uint ROWS = 10u;  // vectors of three

void main() {
    uint right = gl_WorkGroupID.x & 1u, middle = camera.size.x / 2u;
    uint first = right * middle, width = right == 1u ? camera.size.x - middle : middle;
    uint pixels = width * camera.size.y, stride = gl_NumWorkGroups.x / 2u * GROUP;
    vec3 rows[ROWS];
    [[unroll]] for (uint k = 0u; k < ROWS; k++) rows[k] = vec3(0.0);
    for (uint i = gl_WorkGroupID.x / 2u * GROUP + gl_LocalInvocationIndex; i < pixels; i += stride) {
        ivec2 at = ivec2(first + i % width, i / width);
        uint packed = packed_photograph(at);
        if (packed == IGNORED) continue;
        vec3 s = clamp(rendered(at), 0.0, 1.0), w = photograph(packed);
        [[unroll]] for (int k = 0; k < 3; k++) {
            rows[k] += s[k] * s;
            rows[3 + k] += s[k] * w;
        }
        rows[6] += s;
        rows[7] += w;
        rows[8] += w * w;
        rows[9].x += 1.0;
    }
    [[dont_unroll]] for (uint k = 0u; k < ROWS; k++) {
        vec3 sum = sum_group(rows[k]);
        if (gl_LocalInvocationIndex == 0u)
            for (uint c = 0u; c < 3u; c++)
                color_moments[3u * (gl_WorkGroupID.x * ROWS + k) + c] = sum[c];
    }
}
