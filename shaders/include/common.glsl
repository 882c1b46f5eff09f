// What every compute pass starts with.
#include "contract/core.glsl"

// Neither NaN nor infinite, by the bits of the exponent: compilers may assume that comparisons see
// no NaN.
const uint EXPONENT = 0x7F800000u;
bool finite(vec4 v) { return all(notEqual(floatBitsToUint(v) & EXPONENT, uvec4(EXPONENT))); }

// Index of this workgroup in a dispatch that was folded into y because x is limited to
// MAX_GROUPS_X.
uint group_index() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

// The folding itself: group counts of a dispatch of `groups` workgroups.
uvec3 fold(uint groups) {
    uint y = max((groups + MAX_GROUPS_X - 1u) / MAX_GROUPS_X, 1u);
    return uvec3((groups + y - 1u) / y, y, 1u);
}
