// Sums over a workgroup of the first SUMS numbers of its threads, always in the same order, in `totals` afterwards. Every thread must call it. Some numbers
// at a time lie in shared memory; 16 threads add up one of them.
const uint AT_ONCE = 14u, SHARING = 16u;
shared float all_lines[AT_ONCE * GROUP], parts[AT_ONCE * SHARING], totals[EXPOSURE_SUMS];

void sum_all(float sums[EXPOSURE_SUMS]) {
    uint t = gl_LocalInvocationIndex;
    [[unroll]] for (uint first = 0u; first < SUMS; first += AT_ONCE) {
        [[unroll]] for (uint k = 0u; k < AT_ONCE; ++k) all_lines[k * GROUP + t] = sums[first + k];
        barrier();
        if (t < AT_ONCE * SHARING) {
            float part = 0.0;
            for (uint i = t % SHARING; i < GROUP; i += SHARING) part += all_lines[t / SHARING * GROUP + i];
            parts[t] = part;
        }
        barrier();
        if (t < AT_ONCE) {
            float total = 0.0;
            for (uint i = 0u; i < SHARING; ++i) total += parts[t * SHARING + i];
            totals[first + t] = total;
        }
    }
    barrier();
}
