// SSIM of the rendering against the photograph, the terms of the loss, the squared error, and what the gradient of SSIM needs.
// Row sums of a tile and its neighbours, then column sums, one channel after the other in shared memory (21 KiB).
// Floor: read target 4..16 B (by format) and photograph 4 B, write ssim_grads 36 B a pixel; the neighbours of a tile come from cache.
#include "contract/loss.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
layout(constant_id = 0) const bool METRIC = false;  // as torchmetrics measures: values clamped, reflected at the border; no derivatives
BUFFER_ssim_grads(writeonly)
BUFFER_loss_sums(writeonly)
#include "ssim.glsl"
#include "loss/pixel.glsl"
#include "loss/sum.glsl"
#include "loss/store_sums.glsl"
#include <seen>

const int ROUNDS = (SSIM_LOADS + int(GROUP) - 1) / int(GROUP);
shared vec4 pairs[SSIM_LOADS];  // (x, y) of two pixels side by side: one 16-byte read serves two windows
shared float rows[4][SSIM_TILE.x * SSIM_AREA.y];

struct Pixel { vec3 x; uint y; };  // the photograph stays packed: it waits in registers for its channel

// `local` counts from the corner of the neighbourhood.
Pixel load(ivec2 local) {
    ivec2 at = ivec2(gl_WorkGroupID.xy) * SSIM_TILE - SSIM_RADIUS + local, last = ivec2(camera.size) - 1;
    bool inside = at == clamp(at, ivec2(0), last);
    if (!METRIC && !inside) return Pixel(vec3(0.0), OPAQUE_BLACK);
    at = clamp(last - abs(last - abs(at)), ivec2(0), last);  // reflected: the border pixel is not repeated
    Pixel pixel = Pixel(seen(at), packed_photograph(at));
    if (pixel.y == IGNORED) return Pixel(vec3(0.0), OPAQUE_BLACK);  // as beyond the border
    if (METRIC) pixel.x = clamp(pixel.x, 0.0, 1.0);
    return pixel;
}

vec2 channel(Pixel pixel, int c) { return vec2(channel_of(pixel.x, c), channel_of(photograph(pixel.y), c)) - SSIM_GREY; }

void sum_rows(int pair) {
    int row = pair / (SSIM_TILE.x / 2), column = pair % (SSIM_TILE.x / 2);
    vec4 left = vec4(0.0), right = left;  // of x, y, x^2 + y^2 and x y
    [[unroll]] for (int k = 0; k < 12; k++) {
        vec4 two = pairs[row * SSIM_PAIRS + column + k / 2];
        vec2 v = k % 2 == 0 ? two.xy : two.zw;
        vec4 terms = vec4(v, dot(v, v), v.x * v.y);
        left += SSIM_WINDOW[k + 1] * terms;
        right += SSIM_WINDOW[k] * terms;
    }
    int i = ssim_row(row) + 2 * column;
    [[unroll]] for (int m = 0; m < 4; m++) {
        rows[m][i] = left[m];
        rows[m][i + 1] = right[m];
    }
}

Moments[2] sum_columns() {
    vec2 sums[4] = vec2[4](vec2(0.0), vec2(0.0), vec2(0.0), vec2(0.0));
    int own = int(gl_LocalInvocationIndex);  // two rows down are one on in ssim_row
    [[unroll]] for (int k = 0; k < 12; k++) {
        [[unroll]] for (int m = 0; m < 4; m++) sums[m] += rows[m][own + ssim_row(k)] * vec2(SSIM_WINDOW[k + 1], SSIM_WINDOW[k]);
    }
    return Moments[2](Moments(sums[0].x, sums[1].x, sums[2].x, sums[3].x), Moments(sums[0].y, sums[1].y, sums[2].y, sums[3].y));
}

void main() {
    uvec2 tiles = ssim_tiles(camera.size);
    if (any(greaterThanEqual(gl_WorkGroupID.xy, tiles))) return;  // the canvas is larger than this image
    begin_seen();
    int t = int(gl_LocalInvocationIndex);
    vec3 ssims[2] = vec3[2](vec3(1.0), vec3(1.0));  // of the two pixels of this thread
    Pixel loaded[ROUNDS][2];
    [[unroll]] for (int r = 0; r < ROUNDS; r++) {
        int i = t + r * int(GROUP);
        ivec2 local = ivec2(i % SSIM_PAIRS * 2, i / SSIM_PAIRS);
        if (i < SSIM_LOADS) loaded[r] = Pixel[2](load(local), load(local + ivec2(1, 0)));
    }
    uvec2 at = gl_GlobalInvocationID.xy * uvec2(1u, 2u);
    bool inside[2], kept[2];
    [[unroll]] for (uint r = 0u; r < 2u; r++) {
        inside[r] = at.x < camera.size.x && at.y + r < camera.size.y;
        kept[r] = inside[r] && packed_photograph(ivec2(at) + ivec2(0, r)) != IGNORED;
    }
    uint plane = camera.size.x * camera.size.y, pixel = at.y * camera.size.x + at.x;
    [[dont_unroll]] for (int c = 0; c < 3; c++) {
        [[unroll]] for (int r = 0; r < ROUNDS; r++) {
            int i = t + r * int(GROUP);
            if (i < SSIM_LOADS) pairs[i] = vec4(channel(loaded[r][0], c), channel(loaded[r][1], c));
        }
        barrier();
        [[dont_unroll]] for (int i = t; i < SSIM_SUMS; i += int(GROUP)) sum_rows(i);
        barrier();
        Moments moments[2] = sum_columns();
        [[unroll]] for (uint r = 0u; r < 2u; r++) {
            vec3 d;
            put_channel(ssims[r], c, ssim(moments[r], d));
            if (inside[r] && !METRIC) {
                [[unroll]] for (int m = 0; m < 3; m++) ssim_grads[uint(3 * c + m) * plane + pixel + r * camera.size.x] = kept[r] ? d[m] : 0.0;
            }
        }
    }
    Sums sums = no_sums();
    [[unroll]] for (uint r = 0u; r < 2u; r++) {
        if (!kept[r]) continue;  // what a mask leaves out counts as matched
        ivec2 own = ivec2(at) + ivec2(0, r);
        vec3 x = seen(own);
        if (METRIC) x = clamp(x, 0.0, 1.0);
        add_pixel(sums, Compared(x, photograph(packed_photograph(own)), x, ssims[r], vec3(0.0)));
    }
    store_sums(sums, tiles);
}
