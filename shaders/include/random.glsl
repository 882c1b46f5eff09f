// Stateless random numbers: hashes of what they are for, so that a resumed run draws what an
// uninterrupted one would have drawn.

// The last word of a key: what is drawn.
const uint DRAW_BACKGROUND = 0u;
const uint DRAW_CHILD = 1u;  // and 2, the second child of a split
const uint DRAW_SOURCE = 3u;
const uint DRAW_NOISE = 4u;
const uint DRAW_ROUNDING = 5u;  // and one for each further plane of moments
const uint DRAW_SIGNS = 64u;  // + 256 for each pair of perturbed images
const uint DRAW_VERTEX = 256u;
const uint DRAW_TEXEL = 257u;
const uint DRAW_TICKET = 258u;

// pcg4d of Jarzynski & Olano, "Hash Functions for GPU Rendering" (JCGT 9(3), 2020). key: seed,
// step, item, draw.
uvec4 random_bits(uvec4 key) {
    uvec4 v = key * 1664525u + 1013904223u;
    for (uint round = 0u; round < 2u; ++round) {
        v.x += v.y * v.w;
        v.y += v.z * v.x;
        v.z += v.x * v.y;
        v.w += v.y * v.z;
        if (round == 0u) v ^= v >> 16u;
    }
    return v;
}

// Four numbers in [0, 1), multiples of 2^-24: every one of them a float.
vec4 random_uniform(uvec4 key) { return vec4(random_bits(key) >> 8u) * exp2(-24.0); }

// Three standard normal numbers (Box & Muller 1958).
vec3 random_normal(uvec4 key) {
    vec4 u = random_uniform(key);
    vec2 radius = sqrt(-2.0 * log(1.0 - u.xy)), angle = 6.283185307 * (u.zw - 0.5);
    return vec3(radius.x * cos(angle.x), radius.x * sin(angle.x), radius.y * cos(angle.y));
}
