// <moments>: bfloat16, the upper half of a float's bits. Its exponent is the float's, so no v = d^2
// underflows that did not before.
//
// Rounding is stochastic: up with the probability that makes the mean right. To nearest, v would be
// a ratchet: a step changes it by (1 - beta2) (d^2 - v), that is by 0.001 v where a splat has no
// gradient any more, while neighbours in 8 bits of mantissa are v / 256 to v / 128 apart and half
// of that is 0.002 v at least: v would never fall, nor rise before d^2 > 3 v. Stochastically it
// moves by 1 / 256 in one step of 4. What that costs: with steps of s = 1/256 to 1/128 of v, each
// of variance 0.001 s, v is off by sqrt(0.001 s / (1 - beta2^2)) = sqrt(s / 2), 4 to 6 %, and a
// step of Adam, which divides by the root of v, by half of that, with no bias to speak of.
#extension GL_EXT_shader_16bit_storage : require
#include "random.glsl"

#define MOMENT uint16_t
#define FOUR_MOMENTS uvec2
// As 32 bits, and back.
#define bits_of(moment) uint(moment)
#define moment_of(bits) MOMENT(bits)
// Two that are neighbours.
#define TWO_MOMENTS u16vec2
#define bits_of_two(moments) uvec2(moments)
#define two_moments_of(bits) TWO_MOMENTS(bits)

// 16 random bits for each of 4 + 4 moments.
uvec4 rounding_noise(uvec4 key) { return random_bits(key); }

// A number that bfloat16 has stays what it is. Only a NaN might become another number, and then its
// parameter is a NaN already.
FOUR_MOMENTS stored(vec4 moments, uvec2 noise) {
    uvec4 bits = floatBitsToUint(moments) +
                 uvec4(noise.x & 0xFFFFu, noise.x >> 16u, noise.y & 0xFFFFu, noise.y >> 16u);
    return (bits.xz >> 16u) | (bits.yw & 0xFFFF0000u);
}

vec4 loaded(FOUR_MOMENTS moments) {
    return uintBitsToFloat(uvec4(moments.x << 16u, moments.x & 0xFFFF0000u, moments.y << 16u,
                                 moments.y & 0xFFFF0000u));
}
