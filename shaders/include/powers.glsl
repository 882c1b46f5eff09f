// 1 - (1 - a)^n by squaring, with the complement carried along: a(2n) = a (2 - a), a(n + 1) = a +
// (1 - a) a(1). Nothing cancels, whereas 1 - pow(1 - a, n) loses three digits where a n is small,
// and GPUs compute logarithms near 1 to 2^-21 only.
float one_minus_power(float one, uint n) {
    float a = 0.0;
    for (int bit = findMSB(n); bit >= 0; --bit) {
        a = a * (2.0 - a);
        if ((n >> bit & 1u) != 0u) a += (1.0 - a) * one;
    }
    return a;
}
