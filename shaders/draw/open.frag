// Which pixels of a depth segment are still seen through the stretches before it, as depth: 1 where they are, else 0, so that the draw's depth test rejects fragments
// before they run.
#include "contract/draw.glsl"
layout(constant_id = 2) const uint CANVAS_WIDTH = 1u;
layout(constant_id = 3) const uint CANVAS_HEIGHT = 1u;
BUFFER_fronts(readonly)

void main() {
    uvec2 at = uvec2(gl_FragCoord.xy);
    gl_FragDepth = fronts[at.y % CANVAS_HEIGHT * CANVAS_WIDTH + at.x] < T_MIN ? 0.0 : 1.0;
}
