// Sum over a workgroup of GROUP threads, always in the same order; valid in thread 0. Every thread must call it.
#include "contract/core.glsl"
shared vec3 sum_lines[GROUP / 2u];

vec3 sum_group(vec3 value) {
    uint t = gl_LocalInvocationIndex;
    for (uint half_size = GROUP / 2u; half_size > 0u; half_size >>= 1u) {
        if (t >= half_size && t < 2u * half_size) sum_lines[t - half_size] = value;
        barrier();
        if (t < half_size) value += sum_lines[t];
        barrier();  // the lines are free again
    }
    return value;
}
