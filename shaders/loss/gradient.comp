// dL/d image of L = (1 - lambda) mean|x - y| + lambda (1 - mean SSIM): Kerbl et al. 2023, equation 7.
// The derivatives in ssim_grads are convolved as the moments were: rows, then columns, a channel at a time in shared memory (13 KiB).
// Floor: read ssim_grads 36 B, target 4..16 B and photograph 4 B, write d_image 16 B a pixel.
#include "contract.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
BUFFER_ssim_grads(readonly)
BUFFER_hyper(readonly)
STORE_d_image
#include "ssim.glsl"
#include "loss/pixel.glsl"

shared vec2 pairs[3][SSIM_LOADS];  // two pixels side by side, so that one read serves two windows
shared float rows[3][SSIM_SIDE * int(TILE)];

float derivative(uint plane, ivec2 at) {
    bool inside = all(greaterThanEqual(at, ivec2(0))) && all(lessThan(at, ivec2(camera.size)));
    return inside ? ssim_grads[plane * camera.size.x * camera.size.y + uint(at.y) * camera.size.x + uint(at.x)] : 0.0;
}

void sum_rows(int pair) {
    int row = pair / int(TILE / 2u), column = pair % int(TILE / 2u);
    [[unroll]] for (int m = 0; m < 3; m++) {
        vec2 sums = vec2(0.0);
        [[unroll]] for (int k = 0; k < 12; k++) sums += pairs[m][row * SSIM_PAIRS + column + k / 2][k % 2] * vec2(SSIM_WINDOW[k + 1], SSIM_WINDOW[k]);
        rows[m][row * int(TILE) + 2 * column] = sums.x;
        rows[m][row * int(TILE) + 2 * column + 1] = sums.y;
    }
}

vec3 sum_columns(int t) {
    vec3 sums = vec3(0.0);
    [[unroll]] for (int k = 0; k < 11; k++) {
        int i = t + k * int(TILE);
        sums += SSIM_WINDOW[k + 1] * vec3(rows[0][i], rows[1][i], rows[2][i]);
    }
    return sums;
}

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy), corner = ivec2(gl_WorkGroupID.xy * TILE) - SSIM_RADIUS;
    if (any(greaterThanEqual(gl_WorkGroupID.xy, tiles()))) {
        imageStore(d_image, at, vec4(0.0));  // the canvas is larger than this image
        return;
    }
    int t = int(gl_LocalInvocationIndex);
    bool inside = all(lessThan(at, ivec2(camera.size)));
    vec3 x = vec3(0.0), y = vec3(0.0), d_x = vec3(0.0);
    if (inside) {
        x = rendered(at);
        y = photographed(at);
    }
    [[unroll]] for (int c = 0; c < 3; c++) {
        for (int i = t; i < SSIM_LOADS; i += int(GROUP)) {
            ivec2 from = corner + ivec2(i % SSIM_PAIRS * 2, i / SSIM_PAIRS);
            [[unroll]] for (int m = 0; m < 3; m++) {
                pairs[m][i] = vec2(derivative(uint(3 * c + m), from), derivative(uint(3 * c + m), from + ivec2(1, 0)));
            }
        }
        barrier();
        if (t < SSIM_SUMS) sum_rows(t);
        barrier();
        d_x[c] = ssim_backward(sum_columns(t), x[c], y[c]);
    }
    float per_value = 1.0 / float(3u * camera.size.x * camera.size.y), weight = hyper.ssim_lambda;
    d_x = per_value * ((1.0 - weight) * sign(x - y) - weight * d_x);
    imageStore(d_image, at, vec4(inside ? d_x : vec3(0.0), 0.0));  // stores outside the canvas are dropped
}
