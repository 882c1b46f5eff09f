// How often each digit occurs in a block of keys. Every thread of the workgroup must call
// begin_histogram and end_histogram.
shared uint histogram[RADIX];
// tell(block, digit, keys): where the passes that sort by the digit find it
#include <told>

void begin_histogram() {
    histogram[gl_LocalInvocationID.x] = 0u;
    barrier();
}

void count_digit(uint digit) { atomicAdd(histogram[digit], 1u); }

void end_histogram(uint block) {
    barrier();
    if (gl_LocalInvocationID.x < DIGITS)
        tell(block, gl_LocalInvocationID.x, histogram[gl_LocalInvocationID.x]);
}
