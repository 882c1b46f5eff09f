// Sums over the pixels of a workgroup: the squared error, then the terms of the loss. The includer has BUFFER_loss_sums.
#include "contract/pixel_terms.glsl"

const uint SUMS = PIXEL_TERMS + 1u;
struct Sums { float of[SUMS]; };
shared float sum_lines[SUMS][GROUP];

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

// Always in the same order. Every thread of the workgroup must call it.
void store_sums(Sums sums, uvec2 tiles) {
    const uint COLUMNS = 16u;  // threads that add up one of the sums
    uint t = gl_LocalInvocationIndex;
    for (uint k = 0u; k < SUMS; ++k) sum_lines[k][t] = sums.of[k];
    barrier();
    for (uint i = t; i < SUMS * COLUMNS; i += GROUP) {
        uint k = i / COLUMNS, column = i % COLUMNS;
        float sum = 0.0;
        for (uint j = column; j < GROUP; j += COLUMNS) sum += sum_lines[k][j];
        sum_lines[k][column] = sum;
    }
    barrier();
    if (t >= SUMS || any(greaterThanEqual(gl_WorkGroupID.xy, tiles))) return;
    float sum = 0.0;
    for (uint i = 0u; i < COLUMNS; ++i) sum += sum_lines[t][i];
    loss_sums[(gl_WorkGroupID.y * tiles.x + gl_WorkGroupID.x) * SUMS + t] = sum;
}
