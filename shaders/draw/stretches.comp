// The commands of the forward draw's stretches: depth segments END_(k - 1) to END_k, whose splats lie one after the other in a draw from the back.
#include "contract/core.glsl"
layout(local_size_x = 1) in;
layout(constant_id = 0) const uint END_0 = 1u;
layout(constant_id = 1) const uint END_1 = 1u;
layout(constant_id = 2) const uint END_2 = 1u;
layout(constant_id = 3) const uint END_3 = 1u;
layout(constant_id = 4) const uint DRAW_VERTICES = 6u;  // a splat
BUFFER_counts(readonly)
BUFFER_indirect(writeonly)
#include "draw/segments.glsl"

uvec4 command(uint begin, uint end) {
    uint splats = counts.visible, nearest = segment_start(begin, splats), beyond = segment_start(end, splats);
    return uvec4(DRAW_VERTICES * (beyond - nearest), 1u, DRAW_VERTICES * (splats - beyond), 0u);
}

void main() {
    indirect.stretch_0 = command(0u, END_0);
    indirect.stretch_1 = command(END_0, END_1);
    indirect.stretch_2 = command(END_1, END_2);
    indirect.stretch_3 = command(END_2, END_3);
}
