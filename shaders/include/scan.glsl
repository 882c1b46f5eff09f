// Exclusive prefix sum over a workgroup of GROUP threads in shared memory (Hillis & Steele 1986); needs no subgroup size.
shared uint scan_line[GROUP];

// Returns the sum of `value` over lower threads; `total` is the sum over all. Every thread must call it.
uint scan_group(uint value, out uint total) {
    uint t = gl_LocalInvocationID.x;
    scan_line[t] = value;
    barrier();
    for (uint step = 1u; step < GROUP; step <<= 1u) {
        uint add = t >= step ? scan_line[t - step] : 0u;
        barrier();
        scan_line[t] += add;
        barrier();
    }
    uint inclusive = scan_line[t];
    total = scan_line[GROUP - 1u];
    barrier();  // the line is free again
    return inclusive - value;
}
