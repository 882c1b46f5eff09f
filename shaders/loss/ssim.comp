// SSIM, L1 and squared error of the rendering against the photograph, and what the gradient of SSIM needs.
// Separable: row sums of a tile and its neighbours, then column sums, one channel after the other in shared memory (15 KiB).
// Floor: read target 4..16 B (by format) and photograph 4 B, write ssim_grads 36 B a pixel; the neighbours of a tile come from cache.
#include "contract.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
layout(constant_id = 0) const bool METRIC = false;  // as torchmetrics measures: values clamped, reflected at the border; no derivatives
BUFFER_ssim_grads(writeonly)
BUFFER_loss_sums(writeonly)
#include "ssim.glsl"
#include "loss/pixel.glsl"
#include "loss/sum.glsl"

const int ROUNDS = (SSIM_LOADS + int(GROUP) - 1) / int(GROUP);
const int TILE_END = SSIM_RADIUS + int(TILE);
shared vec4 pairs[SSIM_LOADS];  // (x, y) of two pixels side by side: one 16-byte read serves two windows
shared float rows[5][SSIM_SIDE * int(TILE)];

struct Pixel { vec3 x, y; };  // relative to SSIM_GREY

// `local` counts from the corner of the neighbourhood. Adds a pixel of the tile itself to the errors.
Pixel load(ivec2 local, inout vec3 sums) {
    ivec2 at = ivec2(gl_WorkGroupID.xy * TILE) - SSIM_RADIUS + local, size = ivec2(camera.size), last = size - 1;
    bool inside = all(greaterThanEqual(at, ivec2(0))) && all(lessThan(at, size));
    if (!METRIC && !inside) return Pixel(vec3(-SSIM_GREY), vec3(-SSIM_GREY));  // zero padding
    ivec2 mirrored = clamp(last - abs(last - abs(at)), ivec2(0), last);  // the border pixel is not repeated
    vec3 x = rendered(mirrored), y = photographed(mirrored);
    if (METRIC) x = clamp(x, 0.0, 1.0);
    bool own = inside && all(greaterThanEqual(local, ivec2(SSIM_RADIUS))) && all(lessThan(local, ivec2(TILE_END)));
    if (own) sums += vec3(dot(abs(x - y), vec3(1.0)), 0.0, dot(x - y, x - y));
    return Pixel(x - SSIM_GREY, y - SSIM_GREY);
}

void sum_rows(int pair) {
    int row = pair / int(TILE / 2u), column = pair % int(TILE / 2u);
    float left[5] = float[5](0.0, 0.0, 0.0, 0.0, 0.0), right[5] = left;
    [[unroll]] for (int k = 0; k < 12; k++) {
        vec4 two = pairs[row * SSIM_PAIRS + column + k / 2];
        vec2 v = k % 2 == 0 ? two.xy : two.zw;
        float terms[5] = float[5](v.x, v.y, v.x * v.x, v.y * v.y, v.x * v.y);
        [[unroll]] for (int m = 0; m < 5; m++) {
            left[m] += SSIM_WINDOW[k + 1] * terms[m];
            right[m] += SSIM_WINDOW[k] * terms[m];
        }
    }
    [[unroll]] for (int m = 0; m < 5; m++) {
        rows[m][row * int(TILE) + 2 * column] = left[m];
        rows[m][row * int(TILE) + 2 * column + 1] = right[m];
    }
}

Moments sum_columns(int t) {
    float sums[5] = float[5](0.0, 0.0, 0.0, 0.0, 0.0);
    [[unroll]] for (int k = 0; k < 11; k++) {
        [[unroll]] for (int m = 0; m < 5; m++) sums[m] += SSIM_WINDOW[k + 1] * rows[m][t + k * int(TILE)];
    }
    return Moments(sums[0], sums[1], sums[2], sums[3], sums[4]);
}

void main() {
    if (any(greaterThanEqual(gl_WorkGroupID.xy, tiles()))) return;  // the canvas is larger than this image
    int t = int(gl_LocalInvocationIndex);
    vec3 sums = vec3(0.0);  // L1, SSIM, squared error
    Pixel loaded[ROUNDS][2];
    [[unroll]] for (int r = 0; r < ROUNDS; r++) {
        int i = t + r * int(GROUP);
        ivec2 local = ivec2(i % SSIM_PAIRS * 2, i / SSIM_PAIRS);
        if (i < SSIM_LOADS) loaded[r] = Pixel[2](load(local, sums), load(local + ivec2(1, 0), sums));
    }
    uvec2 at = gl_GlobalInvocationID.xy;
    bool inside = all(lessThan(at, camera.size));
    uint plane = camera.size.x * camera.size.y, pixel = at.y * camera.size.x + at.x;
    [[unroll]] for (int c = 0; c < 3; c++) {
        [[unroll]] for (int r = 0; r < ROUNDS; r++) {
            int i = t + r * int(GROUP);
            if (i < SSIM_LOADS) pairs[i] = vec4(loaded[r][0].x[c], loaded[r][0].y[c], loaded[r][1].x[c], loaded[r][1].y[c]);
        }
        barrier();
        if (t < SSIM_SUMS) sum_rows(t);
        barrier();
        vec3 d;
        float value = ssim(sum_columns(t), d);
        if (inside) sums.y += value;
        if (inside && !METRIC) {
            [[unroll]] for (int m = 0; m < 3; m++) ssim_grads[uint(3 * c + m) * plane + pixel] = d[m];
        }
    }
    sums = sum_group(sums);
    if (t == 0) loss_sums[gl_WorkGroupID.y * tiles().x + gl_WorkGroupID.x] = sums;
}
