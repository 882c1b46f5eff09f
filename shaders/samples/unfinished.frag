// How much is still seen of the blocks of a depth segment, as depth, so that depth tests reject fragments before they run: 0 where no pixel is seen; else 1, or with
// LEAST_WEIGHT the largest transmittance in front of the segment, beside which a splat's depth is LEAST_WEIGHT / its opacity.
#include "contract/draw.glsl"
#include "contract/samples.glsl"
layout(constant_id = 10) const float LEAST_WEIGHT = 0.0;
BUFFER_sample_ranks(readonly)
#include "samples/block.glsl"
#include "samples/front.glsl"

void main() {
    uint home = place_of(uvec2(gl_FragCoord.xy), 0u) * PIXELS;
    float most = 0.0;
    for (uint i = 0u; i < PIXELS; ++i) {
        uint rank = sample_ranks[(home + i) * SAMPLES];
        if (rank != 0u) most = max(most, LEAST_WEIGHT > 0.0 ? unpack_front(rank) : 1.0);
    }
    gl_FragDepth = min(most, 1.0);
}
