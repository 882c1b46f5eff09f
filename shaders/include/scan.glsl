// Exclusive prefix sum over a workgroup of GROUP threads in shared memory; needs no subgroup size.
// Rows of 16 are summed serially, then the 16 row sums: three barriers instead of the logarithm's many, which cost more than the additions.
const uint SCAN_ROW = 16u, SCAN_STRIDE = SCAN_ROW + 1u;  // a stride of 17 keeps the 16 summing threads on different banks
shared uint scan_line[GROUP / SCAN_ROW * SCAN_STRIDE];
shared uint scan_rows[GROUP / SCAN_ROW];

// Returns the sum of `value` over lower threads; `total` is the sum over all. Every thread must call it.
uint scan_group(uint value, out uint total) {
    uint t = gl_LocalInvocationID.x, row = t / SCAN_ROW, at = row * SCAN_STRIDE + t % SCAN_ROW;
    scan_line[at] = value;
    barrier();
    if (t < GROUP / SCAN_ROW) {
        uint sum = 0u;
        for (uint i = t * SCAN_STRIDE; i < t * SCAN_STRIDE + SCAN_ROW; ++i) {
            uint own = scan_line[i];
            scan_line[i] = sum;
            sum += own;
        }
        scan_rows[t] = sum;
    }
    barrier();
    uint before = scan_line[at];
    total = 0u;
    for (uint r = 0u; r < GROUP / SCAN_ROW; ++r) {
        uint sum = scan_rows[r];
        before += r < row ? sum : 0u;
        total += sum;
    }
    barrier();  // the lines are free again
    return before;
}
