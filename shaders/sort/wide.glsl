// What the passes of the radix sort share: digits of BITS bits, blocks of KEYS keys, subgroups that find equal digits among their lanes.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "contract/sort.glsl"
layout(constant_id = 0) const uint SHIFT = 0u;
layout(constant_id = 1) const bool FIRST = false;  // the first pass reads all splats, takes their index as value and drops the culled ones
layout(constant_id = 9) const bool PAIRS = false;  // sorts pairs of tile and splat, not splats
layout(constant_id = 11) const uint BITS = 11u;
layout(constant_id = 12) const uint LANES = 32u;  // of a subgroup
const uint DIGITS = 1u << BITS, KEYS = 4096u;

uint digit_of(uint key) { return (key >> SHIFT) & (DIGITS - 1u); }

// The lanes that have the same digit, of those that have one.
uvec4 alike(uint digit, bool here) {
    uvec4 same = subgroupBallot(here);
    [[unroll]] for (uint bit = 0u; bit < BITS; ++bit) {
        bool set = (digit >> bit & 1u) != 0u;
        uvec4 with = subgroupBallot(set);
        if (LANES <= 32u) same.x &= set ? with.x : ~with.x;
        else same &= set ? with : ~with;
    }
    return LANES <= 32u ? uvec4(same.x, 0u, 0u, 0u) : same;
}
