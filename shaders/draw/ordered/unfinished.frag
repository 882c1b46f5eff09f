// Which blocks of a depth segment are still seen, as depth: 1 where some pixel has a transmittance
// of at least LEAST in front of the segment, else 0, so that the backward draw's depth test rejects
// fragments before they run.
#include "contract/draw.glsl"
#include <state>
layout(constant_id = 9) const float LEAST = 1e-4;
BUFFER_blocks(readonly)
#include "draw/block.glsl"

void main() {
    uint home = first_vector(uvec2(gl_FragCoord.xy));
    float most = 0.0;
    for (uint v = 0u; v < VECTORS; ++v) {
        vec2 p[PER_VECTOR] = unpack_pixels(blocks[home + v]);
        for (uint j = 0u; j < PER_VECTOR; ++j) most = max(most, p[j].y);
    }
    gl_FragDepth = most < STATE_SCALE * LEAST ? 0.0 : 1.0;
}
