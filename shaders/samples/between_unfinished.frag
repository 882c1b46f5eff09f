// How much is still seen of the blocks of a depth segment, as depth, so that depth tests reject fragments before they run; see unfinished.frag.
#include "contract/draw.glsl"
#include "contract/samples.glsl"
#include <known>
layout(constant_id = 9) const float LEAST = 1e-4;
layout(constant_id = 10) const float LEAST_WEIGHT = 0.0;
BUFFER_samples(readonly)
#include "samples/known.glsl"

void main() {
    uint home = place_of(uvec2(gl_FragCoord.xy), 0u) * VECTORS;
    float most = 0.0;
    for (uint v = 0u; v < VECTORS; ++v) {
        Known known[PER_VECTOR] = unpack_known(samples[home + v]);
        for (uint j = 0u; j < PER_VECTOR; ++j) most = max(most, known[j].T);
    }
    gl_FragDepth = most < LEAST ? 0.0 : LEAST_WEIGHT > 0.0 ? min(most, 1.0) : 1.0;
}
