// n splats instead of one (Kheradmand et al. 2024, eq. 9), without the cancellation of its
// alternating sum.
#include "powers.glsl"

// The step of the trapezoidal rule, which on an even entire function converges exponentially: 3e-9
// of the integral.
const float STEP = 0.25;
const uint NODES = 18u;   // up to 4.25: exp(-4.25^2) = 1.4e-8
const float TWO_OVER_SQRT_PI = 1.1283791671;

// -log(1 - o) of a logit: log(1 + e^l). Small ones by the series of 2 atanh(x / (2 + x)).
float optical_depth(float logit) {
    if (logit > 0.0) return logit + log(1.0 + exp(-logit));
    float x = exp(logit), z = x / (2.0 + x), s = z * z;
    return 2.0 * z *
           (1.0 + s * (1.0 / 3.0 + s * (1.0 / 5.0 + s * (1.0 / 7.0 + s * (1.0 / 9.0 + s / 11.0)))));
}

// e^x - 1 for x >= 0.
float exp_minus_one(float x) {
    if (x > 0.5) return exp(x) - 1.0;
    return x * (1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0 * (1.0 + x / 5.0 * (
        1.0 + x / 6.0 * (1.0 + x / 7.0))))));
}

// Each of the n has opacity 1 - (1 - o)^(1/n). Returns its logit, and the factor of scale,
// o / S(n), where
//   S(n) = sum_{i=1..n} sum_{k<i} C(i-1, k) (-1)^k o_n^(k+1) / sqrt(k+1)
//        = sum_{j=1..n} C(n, j) (-1)^(j-1) o_n^j / sqrt(j)
//        = 2 / sqrt(pi) integral_{0..inf} 1 - (1 - o_n exp(-u^2))^n du,
// what n coinciding splats let pass along a line through them.
float shared_logit(float logit, uint n, out float scale) {
    float odds = exp_minus_one(optical_depth(logit) / float(n));
    float opacity = odds / (1.0 + odds), sum = 0.5 * one_minus_power(opacity, n);
    for (uint i = 1u; i < NODES; ++i) {
        float u = STEP * float(i);
        sum += one_minus_power(opacity * exp(-u * u), n);
    }
    scale = 1.0 / (1.0 + exp(-logit)) / (TWO_OVER_SQRT_PI * STEP * sum);
    return log(odds);
}
