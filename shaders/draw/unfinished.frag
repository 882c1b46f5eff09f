// How much is still seen of the blocks of a depth segment, as depth, so that the backward draw's depth test rejects fragments before they run: 0 where no pixel has a
// transmittance of LEAST in front of the segment; else 1, or with LEAST_WEIGHT the largest transmittance, beside which a splat's depth is LEAST_WEIGHT / its opacity.
#include "contract/draw.glsl"
#include <state>
layout(constant_id = 9) const float LEAST = 1e-4;
layout(constant_id = 10) const float LEAST_WEIGHT = 0.0;
BUFFER_blocks(readonly)
#include "draw/block.glsl"

void main() {
    uint home = first_vector(uvec2(gl_FragCoord.xy));
    float most = 0.0;
    for (uint v = 0u; v < VECTORS; ++v) {
        vec2 p[PER_VECTOR] = unpack_pixels(blocks[home + v]);
        for (uint j = 0u; j < PER_VECTOR; ++j) most = max(most, p[j].y / STATE_SCALE);
    }
    gl_FragDepth = most < LEAST ? 0.0 : LEAST_WEIGHT > 0.0 ? min(most, 1.0) : 1.0;
}
