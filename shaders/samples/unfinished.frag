// Which blocks of a depth segment are still seen, as depth: 1, else 0, so that depth tests reject fragments before they run.
#include "contract/draw.glsl"
#include "contract/samples.glsl"
BUFFER_sample_ranks(readonly)
#include "samples/block.glsl"

void main() {
    uint home = place_of(uvec2(gl_FragCoord.xy), 0u) * PIXELS;
    bool open = false;
    for (uint i = 0u; i < PIXELS; ++i) open = open || sample_ranks[(home + i) * SAMPLES] == NOTHING;
    gl_FragDepth = open ? 1.0 : 0.0;
}
