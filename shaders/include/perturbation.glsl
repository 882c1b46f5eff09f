// Simultaneous perturbation (Spall 1992): every parameter moves by its step along or against a random sign. Signs are a hash of (seed, step, pair, splat) and
// so never stored. A splat has at most 59 of them: geometry in bits 8 to 18 of the first word, SH plane k in three bits of the next two (the low bits of the hash are its weakest).
#include "random.glsl"

layout(constant_id = 11) const uint HOLD = 1u;  // steps that share their signs
layout(constant_id = 12) const float STEP_MEANS = 0.1;  // share of the shorter half axis on screen
layout(constant_id = 13) const float STEP_QUATS = 0.02;
layout(constant_id = 14) const float STEP_SCALES = 0.05;
layout(constant_id = 15) const float STEP_OPACITIES = 0.1;
layout(constant_id = 16) const float STEP_SH0 = 0.1;
layout(constant_id = 17) const float STEP_SHN = 0.05;

uvec4 sign_bits(uint pair, uint g) { return random_bits(uvec4(frame.seed, frame.step / HOLD, g, DRAW_SIGNS + 256u * pair)); }

float sign_of(uint word, uint i) { return (word >> (8u + i) & 1u) == 0u ? 1.0 : -1.0; }
vec3 signs_of(uint word, uint i) { return vec3(sign_of(word, i), sign_of(word, i + 1u), sign_of(word, i + 2u)); }

// Of geometry: 0 mean (3), 3 quat (4), 7 log scale (3), 10 logit.
vec3 sh_signs(uvec4 bits, uint k) { return signs_of(k < 8u ? bits.y : bits.z, 3u * (k & 7u)); }
float sh_step(uint k) { return k == 0u ? STEP_SH0 : STEP_SHN; }
