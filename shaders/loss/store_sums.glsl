// Sums over the pixels of a workgroup: the squared error, then the terms of the loss. The includer
// has BUFFER_loss_sums.
#include "contract/pixel_terms.glsl"

const uint SUMS = PIXEL_TERMS + 1u;
struct Sums { float of[SUMS]; };

Sums no_sums() {
    Sums sums;
    for (uint k = 0u; k < SUMS; ++k) sums.of[k] = 0.0;
    return sums;
}

void add_pixel(inout Sums sums, Compared c) {
    vec3 difference = c.x - c.y;
    float values[PIXEL_TERMS] = pixel_terms(c);
    sums.of[0] += dot(difference, difference);
    for (uint k = 0u; k < PIXEL_TERMS; ++k) sums.of[k + 1u] += values[k];
}

// Every thread of the workgroup must call it.
void store_sums(Sums sums, uvec2 tiles) {
    uint first = (gl_WorkGroupID.y * tiles.x + gl_WorkGroupID.x) * SUMS;
    for (uint k = 0u; k < SUMS; k += 3u) {
        vec3 three = vec3(sums.of[k], k + 1u < SUMS ? sums.of[min(k + 1u, SUMS - 1u)] : 0.0,
                          k + 2u < SUMS ? sums.of[min(k + 2u, SUMS - 1u)] : 0.0);
        three = sum_group(three);
        if (gl_LocalInvocationIndex > 0u || any(greaterThanEqual(gl_WorkGroupID.xy, tiles)))
            continue;
        for (uint i = 0u; i < min(3u, SUMS - k); ++i) loss_sums[first + k + i] = three[i];
    }
}
