// Running sums of loss_differences along every row, in place; a workgroup a row. Always in the same
// order.
#include "common.glsl"
#include "contract/stochastic.glsl"
layout(local_size_x = GROUP) in;
BUFFER_camera(readonly)
BUFFER_loss_differences(restrict)

shared float lines[2][GROUP];

void main() {
    uint t = gl_LocalInvocationID.x, row = group_index(), width = camera.size.x;
    if (row >= camera.size.y) return;
    float before = 0.0;
    for (uint first = 0u; first < width; first += GROUP) {
        uint x = first + t, used = min(width - first, GROUP), line = 0u;
        float sum = x < width ? loss_differences[row * width + x] : 0.0;
        lines[line][t] = sum;
        barrier();
        for (uint step = 1u; step < used; step <<= 1u) {
            if (t >= step) sum += lines[line][t - step];
            line = 1u - line;
            lines[line][t] = sum;
            barrier();
        }
        if (x < width) loss_differences[row * width + x] = before + sum;
        before += lines[line][used - 1u];
        barrier();  // the lines are free again
    }
}
