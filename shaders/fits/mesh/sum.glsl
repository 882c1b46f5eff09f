// Sum over a workgroup of GROUP threads, always in the same order; valid in thread 0. Every thread
// must call it, once.
#include "contract/core.glsl"
shared vec4 lines[GROUP];

vec4 sum_group(vec4 value) {
    uint t = gl_LocalInvocationIndex;
    lines[t] = value;
    for (uint half_size = GROUP / 2u; half_size > 0u; half_size >>= 1u) {
        barrier();
        if (t < half_size) lines[t] += lines[t + half_size];
    }
    return lines[0];
}
