// Depths in the order of their bits, counted from the near plane, so that KEY_BITS hold them: what
// lies 2^32 times as far as that ties.
#include "contract/sort.glsl"
uint depth_key(float z, float near) {
    return min(floatBitsToUint(max(z, near)) - floatBitsToUint(near), (1u << KEY_BITS) - 1u);
}
