// What mark.glsl and scan.comp made: which splats are flagged, and how many flagged ones stand
// before each.
#include "contract/refine.glsl"
BUFFER_flags(readonly)
BUFFER_flag_sums(readonly)

bool flagged(uint g) { return (flags[g] & 1u) != 0u; }
uint rank(uint g) { return flag_sums[g / GROUP] + (flags[g] >> 1u); }
uint flagged_of(uint splats) { return flag_sums[(splats + GROUP - 1u) / GROUP]; }
