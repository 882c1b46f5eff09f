// SSIM of the rendering against the photograph, the terms of the loss, the squared error, and what
// the gradient of SSIM needs. Row sums of a tile and its neighbours, then column sums, one channel
// after the other in shared memory (22 KiB). Floor: read target 4..16 B (by format) and photograph
// 4 B, write ssim_grads 36 B a pixel; the neighbours of a tile come from cache.
#include "contract/loss.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
// Measures as torchmetrics does: values clamped, reflected at the border; no derivatives.
layout(constant_id = 0) const bool METRIC = false;
BUFFER_ssim_grads(writeonly)
BUFFER_loss_sums(writeonly)
#include "ssim.glsl"
#include "loss/seen.glsl"
#include "loss/sum.glsl"
#include "loss/store_sums.glsl"

// Odd: no bank conflict.
const int ROUNDS = (SSIM_LOADS + int(GROUP) - 1) / int(GROUP), PITCH = SSIM_TILE.x + 1;
shared vec4 pairs[SSIM_LOADS];  // (x, y) of two neighbouring pixels
shared vec4 rows[PITCH * SSIM_AREA.y];  // sums of x, y, x^2 + y^2 and x y

// The photograph stays packed: it waits in registers for its channel.
struct Pixel { vec3 x; uint y; };

// `local` counts from the corner of the neighbourhood.
Pixel load(ivec2 local) {
    ivec2 at = ivec2(gl_WorkGroupID.xy) * SSIM_TILE - SSIM_RADIUS + local,
          last = ivec2(camera.size) - 1;
    bool inside = at == clamp(at, ivec2(0), last);
    if (!METRIC && !inside) return Pixel(vec3(0.0), OPAQUE_BLACK);
    // Reflected: the border pixel is not repeated.
    at = clamp(last - abs(last - abs(at)), ivec2(0), last);
    Pixel pixel = Pixel(seen(at), packed_photograph(at));
    if (pixel.y == IGNORED) return Pixel(vec3(0.0), OPAQUE_BLACK);  // as beyond the border
    if (METRIC) pixel.x = clamp(pixel.x, 0.0, 1.0);
    return pixel;
}

vec2 channel(Pixel pixel, int c) {
    return vec2(channel_of(pixel.x, c), channel_of(photograph(pixel.y), c)) - SSIM_GREY;
}

void sum_rows(ivec2 block) {
    vec4 sums[4] = vec4[4](vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0));
    [[unroll]] for (int k = 0; k < 14; k++) {
        vec4 two = pairs[block.y * SSIM_PAIRS + (block.x + k) / 2];
        vec2 v = k % 2 == 0 ? two.xy : two.zw;
        vec4 terms = vec4(v, dot(v, v), v.x * v.y);
        [[unroll]] for (int r = 0; r < 4; r++)
            if (ssim_reaches(k - r)) sums[r] += SSIM_WINDOW[k - r] * terms;
    }
    [[unroll]] for (int r = 0; r < 4; r++) rows[block.y * PITCH + block.x + r] = sums[r];
}

vec4[2] sum_columns() {
    vec4 sums[2] = vec4[2](vec4(0.0), vec4(0.0));
    int own = int(gl_LocalInvocationID.y) * 2 * PITCH + int(gl_LocalInvocationID.x);
    [[unroll]] for (int k = 0; k < 12; k++) {
        vec4 value = rows[own + k * PITCH];
        [[unroll]] for (int r = 0; r < 2; r++)
            if (ssim_reaches(k - r)) sums[r] += SSIM_WINDOW[k - r] * value;
    }
    return sums;
}

void main() {
    uvec2 tiles = ssim_tiles(camera.size);
    // The canvas is larger than this image.
    if (any(greaterThanEqual(gl_WorkGroupID.xy, tiles))) return;
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
        [[dont_unroll]] for (int i = t; i < SSIM_SUMS; i += int(GROUP)) sum_rows(ssim_block(i));
        barrier();
        vec4 sums[2] = sum_columns();
        [[unroll]] for (uint r = 0u; r < 2u; r++) {
            vec3 d;
            put_channel(ssims[r], c, ssim(sums[r], d));
            if (inside[r] && !METRIC) {
                [[unroll]] for (int m = 0; m < 3; m++)
                    ssim_grads[uint(3 * c + m) * plane + pixel + r * camera.size.x] =
                        kept[r] ? d[m] : 0.0;
            }
        }
    }
    Sums sums = no_sums();
    [[unroll]] for (uint r = 0u; r < 2u; r++) {
        if (!kept[r]) continue;  // what a mask leaves out counts as matched
        ivec2 own = ivec2(at) + ivec2(0, r);
        vec3 x = seen(own);
        if (METRIC) x = clamp(x, 0.0, 1.0);
        vec3 y = photograph(packed_photograph(own));
        add_pixel(sums, Compared(own, x, y, x, ssims[r], vec3(0.0)));
    }
    store_sums(sums, tiles);
}
