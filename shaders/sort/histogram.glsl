// How often each digit occurs in a block of keys, for the table of counts. Every thread of the
// workgroup must call begin_histogram and end_histogram.
shared uint histogram[RADIX];

void begin_histogram() {
    histogram[gl_LocalInvocationID.x] = 0u;
    barrier();
}

void count_digit(uint digit) { atomicAdd(histogram[digit], 1u); }

void end_histogram(uint block) {
    barrier();
    if (gl_LocalInvocationID.x < DIGITS)
        digit_counts[row_of(gl_LocalInvocationID.x, TURN) + block] =
            histogram[gl_LocalInvocationID.x];
}
