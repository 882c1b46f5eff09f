// Which samples of a fragment take a splat for opaque: each with the probability alpha of its pixel, independent of other splats and fragments (Enderton et al.
// 2010). A splat's own samples share their chances evenly: their thresholds are the same distance apart, from a random place on and in a random order.
#include "random.glsl"
layout(constant_id = 4) const uint BLOCK_W = 1u;  // pixels that a fragment stands for
layout(constant_id = 5) const uint BLOCK_H = 1u;
layout(constant_id = 7) const uint SAMPLES = 1u;  // of a fragment, a power of two
layout(constant_id = 11) const uint DRAWS = 1u;   // of a step
layout(constant_id = 12) const uint DRAW = 0u;    // which of them
const uint PIXELS = BLOCK_W * BLOCK_H;
const uint APART = (0x80000000u / SAMPLES) * 2u;  // from one sample's threshold to the next one's, of 2^32

uvec2 pixel_of(uint i) { return uvec2(i % BLOCK_W, i / BLOCK_W); }

uint accepting_samples(float alphas[PIXELS], uint rank, uvec2 fragment) {
    uvec4 bits = random_bits(uvec4(frame.seed, frame.step * DRAWS + DRAW, rank, DRAW_SAMPLES + (fragment.y << 16) + fragment.x));
    uint accepting = 0u;
    for (uint s = 0u; s < SAMPLES; ++s) {
        uint threshold = bits.x + (s ^ bits.y) * (bits.z | 1u) * APART;
        accepting |= uint(threshold < uint(alphas[s * PIXELS / SAMPLES] * 4294967296.0)) << s;
    }
    return accepting;
}
