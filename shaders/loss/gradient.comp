// What the gradient draws need of L = (1 - lambda) mean|x - y| + lambda (1 - mean SSIM), Kerbl et al. 2023, equation 7: see <result>.
// The derivatives in ssim_grads are convolved as the moments were: rows, then columns, a channel at a time in shared memory (21 KiB).
// Floor: read ssim_grads 36 B, target 4..16 B and photograph 4 B, write d_image 16 B a pixel (or read target_minus and write 4 B).
#include "contract/loss.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
BUFFER_ssim_grads(readonly)
#include "ssim.glsl"
#include "loss/pixel.glsl"
#include "contract/d_pixel_terms.glsl"
#include <seen>

shared vec2 pairs[max(3 * SSIM_LOADS, int(SEEN_PAIRS))];  // of each derivative two pixels side by side: one read serves two windows
#include <result>
shared float rows[3][SSIM_TILE.x * SSIM_AREA.y];

void load(int i, uint channel) {
    ivec2 at = ivec2(gl_WorkGroupID.xy) * SSIM_TILE - SSIM_RADIUS + ivec2(i % SSIM_PAIRS * 2, i / SSIM_PAIRS), size = ivec2(camera.size);
    bool in_column = at.y >= 0 && at.y < size.y;
    bvec2 inside = bvec2(in_column && at.x >= 0 && at.x < size.x, in_column && at.x >= -1 && at.x + 1 < size.x);
    [[unroll]] for (uint m = 0u; m < 3u; m++) {
        uint from = (3u * channel + m) * camera.size.x * camera.size.y + uint(at.y * size.x + at.x);
        vec2 two = vec2(0.0);
        if (inside.x) two.x = ssim_grads[from];
        if (inside.y) two.y = ssim_grads[from + 1u];
        pairs[m * SSIM_LOADS + i] = two;
    }
}

void sum_rows(int pair) {
    int row = pair / (SSIM_TILE.x / 2), column = pair % (SSIM_TILE.x / 2);
    [[unroll]] for (int m = 0; m < 3; m++) {
        vec2 sums = vec2(0.0);
        [[unroll]] for (int k = 0; k < 12; k += 2) {
            vec2 two = pairs[m * SSIM_LOADS + row * SSIM_PAIRS + column + k / 2];
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
    begin_seen();
    ivec2 at = ivec2(gl_GlobalInvocationID.xy) * ivec2(1, 2), last = ivec2(camera.size) - 1;
    vec3 x[2] = vec3[2](vec3(0.0), vec3(0.0)), y[2] = x, d_x[2] = x;
    bool kept[2] = bool[2](false, false);
    if (all(lessThan(gl_WorkGroupID.xy, ssim_tiles(camera.size)))) {  // the canvas may be larger than this image
        [[unroll]] for (int r = 0; r < 2; r++) {
            ivec2 nearest = min(at + ivec2(0, r), last);
            x[r] = seen(nearest);
            uint packed = packed_photograph(nearest);
            y[r] = photograph(packed);
            kept[r] = packed != IGNORED && at.y + r <= last.y && at.x <= last.x;
        }
        [[dont_unroll]] for (int c = 0; c < 3; c++) {
            [[dont_unroll]] for (int i = int(gl_LocalInvocationIndex); i < SSIM_LOADS; i += int(GROUP)) load(i, uint(c));
            barrier();
            [[dont_unroll]] for (int i = int(gl_LocalInvocationIndex); i < SSIM_SUMS; i += int(GROUP)) sum_rows(i);
            barrier();
            vec3 sums[2] = sum_columns();
            [[unroll]] for (int r = 0; r < 2; r++) put_channel(d_x[r], c, ssim_backward(sums[r], channel_of(x[r], c), channel_of(y[r], c)));
        }
    }
    float per_value = 1.0 / float(3u * camera.size.x * camera.size.y);
    begin_result();
    [[unroll]] for (int r = 0; r < 2; r++) result(at + ivec2(0, r), kept[r], per_value, Compared(x[r], y[r], x[r], vec3(0.0), d_x[r]));
    end_result();
}
