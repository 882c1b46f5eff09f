// First of three steps of ranking flagged splats by prefix sums (mark.glsl, scan.comp, rank.glsl),
// in the reduce-then-scan order of Merrill & Grimshaw (2011): every workgroup ranks its own splats
// and leaves their number.
#include "contract/refine.glsl"
#include "scan.glsl"
BUFFER_flags(writeonly)
BUFFER_flag_sums(writeonly)

// Every thread of the dispatch must call it, with g its splat; flag must be false from `splats` on.
void mark(uint g, uint splats, bool flag) {
    uint total, rank = scan_group(uint(flag), GROUP, total);
    if (g >= splats) return;
    flags[g] = 2u * rank + uint(flag);
    if (gl_LocalInvocationID.x == 0u) flag_sums[g / GROUP] = total;
}
