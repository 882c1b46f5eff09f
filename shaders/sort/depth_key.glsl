// Depth as a key of KEY_BITS bits, in the order of depth: the bits of the number, from those of the near plane on. They reach over 32 octaves, in steps of a 2^-19th to a
// 2^-20th of the depth; what is nearer to each other ties, and splats tie by their index.
#include "contract/sort.glsl"

uint depth_key(float depth, float near_plane) {
    const uint LEFT_OUT = 4u;  // of 2^28 numbers in 32 octaves
    float least = max(near_plane, 1e-6);
    return min(floatBitsToUint(max(depth, least)) - floatBitsToUint(least) >> LEFT_OUT, (1u << KEY_BITS) - 1u);
}
