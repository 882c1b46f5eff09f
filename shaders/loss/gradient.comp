// What the gradient draws need of L = (1 - lambda) mean|x - y| + lambda (1 - mean SSIM), Kerbl et
// al. 2023, equation 7: see <result>. The derivatives in ssim_grads are convolved as the moments
// were: rows, then columns, a channel at a time in shared memory (21 KiB). Floor: read ssim_grads
// 36 B, target 4..16 B and photograph 4 B, write d_image 16 B a pixel (or read target_minus and
// write 4 B).
#include "contract/loss.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
BUFFER_ssim_grads(readonly)
#include "ssim.glsl"
#include "loss/seen.glsl"
#include "contract/d_pixel_terms.glsl"

// Two neighbouring pixels of each derivative.
shared vec2 pairs[max(3 * SSIM_LOADS, int(SEEN_PAIRS))];
#include <result>
shared vec4 rows[3][SSIM_SUMS + 2];
const int LINES = int(GROUP) / 32, ROUNDS = (SSIM_AREA.y + LINES - 1) / LINES;

// Where a row of row sums begins: even rows, then odd ones, two blocks further. Threads that step
// by two rows then read 32 values in a row: no bank conflict.
int row_of_blocks(int row) {
    return (row % 2 * (SSIM_AREA.y / 2) + row / 2) * (SSIM_TILE.x / 4) + row % 2 * 2;
}

// 32 threads take a row, so that all derivatives of a thread's pixels are asked for before the
// first one is here.
void load(int channel) {
    vec3 loaded[ROUNDS];
    ivec2 local = ivec2(gl_LocalInvocationIndex % 32u, gl_LocalInvocationIndex / 32u),
          size = ivec2(camera.size);
    ivec2 at = ivec2(gl_WorkGroupID.xy) * SSIM_TILE - SSIM_RADIUS + local;
    int plane = size.x * size.y, from = 3 * channel * plane + at.y * size.x + at.x;
    if (local.x >= SSIM_AREA.x) return;
    bool in_row = at.x >= 0 && at.x < size.x;
    [[unroll]] for (int n = 0; n < ROUNDS; n++) {
        int y = at.y + n * LINES, i = from + n * LINES * size.x;
        loaded[n] = vec3(0.0);
        if (in_row && y >= 0 && y < size.y)
            loaded[n] = vec3(ssim_grads[i], ssim_grads[i + plane], ssim_grads[i + 2 * plane]);
    }
    [[unroll]] for (int n = 0; n < ROUNDS; n++) {
        int row = local.y + n * LINES;
        if (row < SSIM_AREA.y) [[unroll]]
            for (int m = 0; m < 3; m++)
                pairs[m * SSIM_LOADS + row * SSIM_PAIRS + local.x / 2][local.x % 2] = loaded[n][m];
    }
}

void sum_rows(ivec2 block) {
    [[unroll]] for (int m = 0; m < 3; m++) {
        vec4 sums = vec4(0.0);
        [[unroll]] for (int k = 0; k < 14; k++) {
            vec2 two = pairs[m * SSIM_LOADS + block.y * SSIM_PAIRS + (block.x + k) / 2];
            float value = k % 2 == 0 ? two.x : two.y;
            [[unroll]] for (int r = 0; r < 4; r++)
                if (ssim_reaches(k - r)) sums[r] += SSIM_WINDOW[k - r] * value;
        }
        rows[m][row_of_blocks(block.y) + block.x / 4] = sums;
    }
}

vec3[2] sum_columns() {
    vec3 sums[2] = vec3[2](vec3(0.0), vec3(0.0));
    uint x = gl_LocalInvocationID.x;
    [[unroll]] for (int k = 0; k < 12; k++) {
        uint i = gl_LocalInvocationIndex / 4u + row_of_blocks(k);
        vec3 value = vec3(rows[0][i][x % 4u], rows[1][i][x % 4u], rows[2][i][x % 4u]);
        [[unroll]] for (int r = 0; r < 2; r++)
            if (ssim_reaches(k - r)) sums[r] += SSIM_WINDOW[k - r] * value;
    }
    return sums;
}

void main() {
    begin_seen();
    ivec2 at = ivec2(gl_GlobalInvocationID.xy) * ivec2(1, 2), last = ivec2(camera.size) - 1;
    vec3 x[2] = vec3[2](vec3(0.0), vec3(0.0)), d_x[2] = x;
    uint packed[2] = uint[2](IGNORED, IGNORED);  // photographs stay packed, to save registers
    // The canvas may be larger than this image.
    if (all(lessThan(gl_WorkGroupID.xy, ssim_tiles(camera.size)))) {
        [[unroll]] for (int r = 0; r < 2; r++) {
            ivec2 own = at + ivec2(0, r), nearest = min(own, last);
            x[r] = seen(nearest);
            if (own == nearest) packed[r] = packed_photograph(own);
        }
        [[dont_unroll]] for (int c = 0; c < 3; c++) {
            load(c);
            barrier();
            [[dont_unroll]] for (int i = int(gl_LocalInvocationIndex); i < SSIM_SUMS;
                                 i += int(GROUP))
                sum_rows(ssim_block(i));
            barrier();
            vec3 sums[2] = sum_columns();
            [[unroll]] for (int r = 0; r < 2; r++)
                put_channel(d_x[r], c,
                            ssim_backward(sums[r], channel_of(x[r], c),
                                          channel_of(photograph(packed[r]), c)));
        }
    }
    float per_value = 1.0 / float(3u * camera.size.x * camera.size.y);
    begin_result();
    [[unroll]] for (int r = 0; r < 2; r++)
        result(at + ivec2(0, r), packed[r] != IGNORED, per_value,
               Compared(at + ivec2(0, r), x[r], photograph(packed[r]), x[r], vec3(0.0), d_x[r]));
    end_result();
}
