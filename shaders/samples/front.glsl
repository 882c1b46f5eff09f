// The transmittance in front of a depth segment in the bits above a rank: its logarithm, rounded up, in steps of 4 %.
const float FRONT_STEPS = 16.0;  // to half the transmittance
uint pack_front(float T) { return uint(clamp(ceil(255.0 + FRONT_STEPS * log2(T)), 0.0, 255.0)) << RANK_BITS; }
float unpack_front(uint packed) { return exp2((float(packed >> RANK_BITS) - 255.0) / FRONT_STEPS); }
