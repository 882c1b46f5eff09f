// Sum over a workgroup of GROUP threads, always in the same order; valid in thread 0. Every thread
// must call it.
#include "contract/core.glsl"
shared vec3 sum_lines[GROUP / 2u];

vec3 sum_group(vec3 value) {
    // Few barriers: a workgroup waits longer for those than for sums.
    const uint HALF = GROUP / 2u, COLUMNS = 16u;
    uint t = gl_LocalInvocationIndex;
    if (t >= HALF) sum_lines[t - HALF] = value;
    barrier();
    if (t < HALF) sum_lines[t] += value;
    barrier();
    if (t < COLUMNS) {
        value = sum_lines[t];
        for (uint i = COLUMNS; i < HALF; i += COLUMNS) value += sum_lines[t + i];
        sum_lines[t] = value;
    }
    barrier();
    if (t == 0u)
        for (uint i = 1u; i < COLUMNS; ++i) value += sum_lines[i];
    barrier();  // the lines are free again
    return value;
}
