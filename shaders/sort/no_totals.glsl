// <totals>: digits of all keys, and how many blocks workgroups have taken, before any are counted.
BUFFER_digit_totals(writeonly)
void make_ready(uint first) {
    for (uint i = gl_LocalInvocationID.x; i < PAIR_SLOT * RADIX; i += GROUP)
        digit_totals[first * RADIX + i] = 0u;
}
