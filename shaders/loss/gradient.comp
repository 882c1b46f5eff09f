// What the gradient draws need of L = (1 - lambda) mean|x - y| + lambda (1 - mean SSIM), Kerbl et al. 2023, equation 7: see <result>.
// The derivatives in ssim_grads are convolved as the moments were: rows, then columns, a channel at a time in shared memory (21 KiB).
// Floor: read ssim_grads 36 B, target 4..16 B and photograph 4 B, write d_image 16 B a pixel (or read target_minus and write 4 B).
#include "contract/loss.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
BUFFER_ssim_grads(readonly)
#include "ssim.glsl"
#include "loss/pixel.glsl"
#include "contract/d_pixel_terms.glsl"
#include <result>

shared vec2 pairs[3][SSIM_LOADS];  // two pixels side by side: one read serves two windows
shared float rows[3][SSIM_TILE.x * SSIM_AREA.y];

const int ROUNDS = (SSIM_LOADS + int(GROUP) - 1) / int(GROUP);
vec2 fetched[ROUNDS][3];

// A channel's derivatives on their way into registers: it is on the way while the channel before is summed.
void fetch(uint channel) {
    ivec2 size = ivec2(camera.size), last = size - 1;
    [[unroll]] for (int round = 0; round < ROUNDS; round++) {
        int i = int(gl_LocalInvocationIndex) + round * int(GROUP);
        ivec2 at = ivec2(gl_WorkGroupID.xy) * SSIM_TILE - SSIM_RADIUS + ivec2(i % SSIM_PAIRS * 2, i / SSIM_PAIRS), near = clamp(at, ivec2(0), last);
        bool in_column = at.y == near.y && i < SSIM_LOADS;
        bool left = in_column && at.x == near.x, right = in_column && at.x >= -1 && at.x < last.x;
        uint line = 3u * channel * uint(size.x * size.y) + uint(near.y * size.x);
        [[unroll]] for (uint m = 0u; m < 3u; m++) {
            uint from = line + m * uint(size.x * size.y);
            float one = ssim_grads[from + uint(near.x)], next = ssim_grads[from + uint(clamp(at.x + 1, 0, last.x))];
            fetched[round][m] = vec2(left ? one : 0.0, right ? next : 0.0);
        }
    }
}

void load() {
    [[unroll]] for (int round = 0; round < ROUNDS; round++) {
        int i = int(gl_LocalInvocationIndex) + round * int(GROUP);
        if (i < SSIM_LOADS) [[unroll]] for (int m = 0; m < 3; m++) pairs[m][i] = fetched[round][m];
    }
}

void sum_rows(int pair) {
    int row = pair / (SSIM_TILE.x / 2), column = pair % (SSIM_TILE.x / 2);
    [[unroll]] for (int m = 0; m < 3; m++) {
        vec2 sums = vec2(0.0);
        [[unroll]] for (int k = 0; k < 12; k += 2) {
            vec2 two = pairs[m][row * SSIM_PAIRS + column + k / 2];
            sums += two.x * vec2(SSIM_WINDOW[k + 1], SSIM_WINDOW[k]) + two.y * vec2(SSIM_WINDOW[k + 2], SSIM_WINDOW[k + 1]);
        }
        int i = ssim_row(row) + 2 * column;
        rows[m][i] = sums.x;
        rows[m][i + 1] = sums.y;
    }
}

vec3[2] sum_columns() {
    vec3 upper = vec3(0.0), lower = vec3(0.0);
    [[unroll]] for (int k = 0; k < 12; k++) {
        int i = int(gl_LocalInvocationIndex) + ssim_row(k);  // two rows down are one on in ssim_row
        vec3 value = vec3(rows[0][i], rows[1][i], rows[2][i]);
        upper += SSIM_WINDOW[k + 1] * value;
        lower += SSIM_WINDOW[k] * value;
    }
    return vec3[2](upper, lower);
}

void main() {
    bool in_image = all(lessThan(gl_WorkGroupID.xy, ssim_tiles(camera.size)));  // the canvas may be larger than this image
    if (in_image) fetch(0u);
    ivec2 at = ivec2(gl_GlobalInvocationID.xy) * ivec2(1, 2), last = ivec2(camera.size) - 1;
    vec3 x[2], y[2], d_x[2];
    bool kept[2];
    [[unroll]] for (int r = 0; r < 2; r++) {
        ivec2 nearest = min(at + ivec2(0, r), last);
        x[r] = rendered(nearest);
        uint packed = packed_photograph(nearest);
        y[r] = photograph(packed);
        kept[r] = packed != IGNORED && at.y + r <= last.y && at.x <= last.x;
        d_x[r] = vec3(0.0);
    }
    if (in_image) {
        [[unroll]] for (int c = 0; c < 3; c++) {
            load();
            barrier();
            if (c < 2) fetch(uint(c + 1));
            for (int i = int(gl_LocalInvocationIndex); i < SSIM_SUMS; i += int(GROUP)) sum_rows(i);
            barrier();
            vec3 sums[2] = sum_columns();
            [[unroll]] for (int r = 0; r < 2; r++) d_x[r][c] = ssim_backward(sums[r], x[r][c], y[r][c]);
        }
    }
    float per_value = 1.0 / float(3u * camera.size.x * camera.size.y);
    [[unroll]] for (int r = 0; r < 2; r++) result(at + ivec2(0, r), kept[r], per_value, Compared(x[r], y[r], x[r], vec3(0.0), d_x[r]));
}
