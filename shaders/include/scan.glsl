// Exclusive prefix sum over a workgroup of GROUP threads in shared memory (Hillis & Steele 1986);
// needs no subgroup size. Two lines take turns as source and target, so that a step needs one
// barrier.
#include "contract/core.glsl"
shared uint scan_lines[2][GROUP];

// Returns the sum of `value` over lower threads; `total` is the sum over all. Every thread must
// call it, with the same `used`: values beyond the first `used` threads (at least 1) are not looked
// at.
uint scan_group(uint value, uint used, out uint total) {
    uint t = gl_LocalInvocationID.x, from = 0u, inclusive = value;
    scan_lines[from][t] = inclusive;
    barrier();
    for (uint step = 1u; step < used; step <<= 1u) {
        if (t >= step) inclusive += scan_lines[from][t - step];
        from = 1u - from;
        scan_lines[from][t] = inclusive;
        barrier();
    }
    total = scan_lines[from][used - 1u];
    barrier();  // the lines are free again
    return inclusive - value;
}

uint scan_group(uint value, out uint total) { return scan_group(value, GROUP, total); }

// The greatest `value` of lower threads, 0 for the first. Every thread must call it.
uint greatest_before(uint value) {
    uint t = gl_LocalInvocationID.x, from = 0u;
    scan_lines[from][t] = value;
    barrier();
    for (uint step = 1u; step < GROUP; step <<= 1u) {
        if (t >= step) value = max(value, scan_lines[from][t - step]);
        from = 1u - from;
        scan_lines[from][t] = value;
        barrier();
    }
    uint greatest = t > 0u ? scan_lines[from][t - 1u] : 0u;
    barrier();  // the lines are free again
    return greatest;
}
