// From the sums over pixels to gradients of vignetting.
GRADIENT_vignette_centre(writeonly)
GRADIENT_vignette_falloff(writeonly)

vec3 three(float sums[EXPOSURE_SUMS], uint first) {
    return vec3(sums[first], sums[first + 1u], sums[first + 2u]);
}
vec4 to_own_and_shared(vec3 d) { return vec4(d, d.r + d.g + d.b); }

void chain_vignette(float sums[EXPOSURE_SUMS], uint first, uint number) {
    for (uint i = 0u; i < 2u; ++i)
        d_vignette_centre(i, number) = to_own_and_shared(three(sums, first + 3u * i));
    for (uint i = 0u; i < 3u; ++i)
        d_vignette_falloff(i, number) = to_own_and_shared(three(sums, first + 6u + 3u * i));
}
