// <moments>: as computed.
#define MOMENT float
#define MOMENT3 vec3
#define MOMENT4 vec4
#define FOUR_MOMENTS vec4

uvec4 rounding_noise(uvec4 key) { return uvec4(0u); }
FOUR_MOMENTS stored(vec4 moments, uvec2 noise) { return moments; }
vec4 loaded(FOUR_MOMENTS moments) { return moments; }
