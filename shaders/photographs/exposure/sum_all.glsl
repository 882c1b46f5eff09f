// Sums over a workgroup of the first OWN_SUMS numbers of its threads, always in the same order, in
// `totals` afterwards. Every thread must call it. AT_ONCE of them at a time lie in `pairs`
// (SUM_PAIRS vec2 of shared memory, the includer's), two by two.
#include "photographs/exposure/sum_pairs.glsl"
const uint SHARING = 16u;  // threads that add up two numbers
shared float totals[EXPOSURE_SUMS];

void sum_all(float sums[EXPOSURE_SUMS]) {
    uint t = gl_LocalInvocationIndex;
    [[unroll]] for (uint first = 0u; first < OWN_SUMS; first += AT_ONCE) {
        barrier();  // the pairs are read no more
        if (t >= HALF) [[unroll]]
            for (uint k = 0u; k < AT_ONCE / 2u; ++k)
                pairs[k * HALF + t - HALF] = vec2(sums[first + 2u * k], sums[first + 2u * k + 1u]);
        barrier();
        if (t < HALF) [[unroll]]
            for (uint k = 0u; k < AT_ONCE / 2u; ++k)
                pairs[k * HALF + t] += vec2(sums[first + 2u * k], sums[first + 2u * k + 1u]);
        barrier();
        if (t < AT_ONCE / 2u * SHARING) {
            uint own = t / SHARING * HALF + t % SHARING;
            vec2 part = pairs[own];
            for (uint i = SHARING; i < HALF; i += SHARING) part += pairs[own + i];
            pairs[own] = part;
        }
        barrier();
        if (t < AT_ONCE / 2u) {
            vec2 total = vec2(0.0);
            for (uint i = 0u; i < SHARING; ++i) total += pairs[t * HALF + i];
            totals[first + 2u * t] = total.x;
            totals[first + 2u * t + 1u] = total.y;
        }
    }
    barrier();
}
