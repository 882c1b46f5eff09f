// <moments>: as computed.
#define MOMENT float
#define FOUR_MOMENTS vec4
// As 32 bits, and back.
#define bits_of(moment) floatBitsToUint(moment)
#define moment_of(bits) uintBitsToFloat(bits)
// Two that are neighbours.
#define TWO_MOMENTS vec2
#define bits_of_two(moments) floatBitsToUint(moments)
#define two_moments_of(bits) uintBitsToFloat(bits)

uvec4 rounding_noise(uvec4 key) { return uvec4(0u); }
FOUR_MOMENTS stored(vec4 moments, uvec2 noise) { return moments; }
vec4 loaded(FOUR_MOMENTS moments) { return moments; }
