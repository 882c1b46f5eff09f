// Simultaneous perturbation (Spall 1992): every number of a splat moves by its step along or
// against a random sign. Signs are a hash of (seed, step, pair, splat) and so never stored: 24 in
// each of four words, whose low bits are the weakest of the hash.
#include "random.glsl"


uvec4 sign_bits(uint pair, uint g) {
    return random_bits(uvec4(frame.seed, frame.step, g, DRAW_SIGNS + 256u * pair));
}

// The sign of number n of a splat, as NUMBER_means and the like count them.
float sign_of(uvec4 bits, uint n) {
    return (bits[n / 24u] >> (8u + n % 24u) & 1u) == 0u ? 1.0 : -1.0;
}
vec3 signs_of(uvec4 bits, uint n) {
    return vec3(sign_of(bits, n), sign_of(bits, n + 1u), sign_of(bits, n + 2u));
}

float perturbation_of(uint plane) { return planes.at[plane].perturbation; }
