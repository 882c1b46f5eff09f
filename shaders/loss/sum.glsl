// Sum over a workgroup, always in the same order; valid in thread 0. Every thread must call it. Their number is a multiple of 32.
#include "contract/core.glsl"
const uint SUMMED_THREADS = gl_WorkGroupSize.x * gl_WorkGroupSize.y;
shared vec3 sum_lines[SUMMED_THREADS / 2u];

vec3 sum_group(vec3 value) {
    const uint HALF = SUMMED_THREADS / 2u, COLUMNS = 16u;  // few barriers: a workgroup waits longer for those than for sums
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
