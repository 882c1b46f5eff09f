// Which samples of a pixel take a splat for opaque: each with probability alpha, independent of other splats and pixels (Enderton et al. 2010). A splat's own
// samples share their chances evenly: as many accept it as alpha times their number, rounded up or down at random, in a random order.
#include "random.glsl"
layout(constant_id = 7) const uint SAMPLES = 1u;  // of a pixel, a power of two
layout(constant_id = 11) const uint DRAWS = 1u;   // of a step
layout(constant_id = 12) const uint DRAW = 0u;    // which of them
const uint APART = (0x80000000u / SAMPLES) * 2u;  // from one sample's threshold to the next one's, of 2^32

uint accepting_samples(float alpha, uint rank, uvec2 pixel) {
    uvec4 bits = random_bits(uvec4(frame.seed, frame.step * DRAWS + DRAW, rank, DRAW_SAMPLES + (pixel.y << 16) + pixel.x));
    uint limit = uint(alpha * 4294967296.0), accepting = 0u;
    for (uint s = 0u; s < SAMPLES; ++s) {
        uint threshold = bits.x + (s ^ bits.y) * (bits.z | 1u) * APART;
        accepting |= uint(threshold < limit) << s;
    }
    return accepting;
}
