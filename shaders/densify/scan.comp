// One workgroup turns the flags' sums per workgroup into the sums of all workgroups before each,
// with the grand total behind the last.
#include "common.glsl"
#include "contract/refine.glsl"
#include "scan.glsl"

layout(local_size_x = GROUP) in;
BUFFER_counts(readonly)
BUFFER_flag_sums(restrict)

void main() {
    uint blocks = (counts.splats + GROUP - 1u) / GROUP, before = 0u;
    for (uint start = 0u; start < blocks; start += GROUP) {
        uint b = start + gl_LocalInvocationID.x, sum;
        uint exclusive =
            scan_group(b < blocks ? flag_sums[b] : 0u, min(blocks - start, GROUP), sum);
        if (b < blocks) flag_sums[b] = before + exclusive;
        before += sum;
    }
    if (gl_LocalInvocationID.x == 0u) flag_sums[blocks] = before;
}
