// Depth as a key of KEY_BITS bits: the bits of the number but for the last four, counted from those of the near plane. They reach over 32 octaves and keep 19 bits of the
// mantissa; depths that are alike in these tie, and splats tie by their index.
#include "contract/sort.glsl"

uint depth_key(float depth, float near_plane) {
    float least = max(near_plane, 1e-6);
    return min((floatBitsToUint(max(depth, least)) >> 4u) - (floatBitsToUint(least) >> 4u), (1u << KEY_BITS) - 1u);
}
