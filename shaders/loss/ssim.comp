// SSIM of the rendering against the photograph, the terms of the loss, the squared error, and what the gradient of SSIM needs.
// A thread goes down a column of a tile, in one colour. It makes the row sums of its window at each row and adds them to the eleven windows that have the row, which it
// keeps in registers; the one that is complete leaves. Rows come into shared memory as many at a time as a window has (22 KiB), and the next ones are on their way meanwhile.
// Floor: read target 4..16 B (by format) and photograph 4 B, write ssim_grads 36 B a pixel; the neighbours of a tile come from cache.
#include "contract/loss.glsl"
#include "loss/tiles.glsl"
layout(local_size_x = LOSS_TILE, local_size_y = 3) in;
layout(constant_id = 0) const bool METRIC = false;  // as torchmetrics measures: values clamped, reflected at the border; no derivatives
BUFFER_ssim_grads(writeonly)
BUFFER_loss_sums(writeonly)
#include "ssim.glsl"
#include "loss/pixel.glsl"
#include "loss/sum.glsl"
#include "loss/store_sums.glsl"
#include <seen>

const int WINDOW = 2 * SSIM_RADIUS + 1, WIDE = int(LOSS_TILE) + 2 * SSIM_RADIUS, LOADS = WIDE * WINDOW, THREADS = 3 * int(LOSS_TILE);
const int ROUNDS = (LOADS + THREADS - 1) / THREADS, CHUNKS = (WIDE + WINDOW - 1) / WINDOW;
shared vec2 rows[2][3][LOADS];  // (x, y) of WINDOW rows, by colour; of this chunk and the one before or behind it

struct Pixel { vec3 x; uint y; };  // the photograph stays packed: it waits in registers

// Pixel i of a chunk of rows.
Pixel load(int chunk, int i) {
    ivec2 at = ivec2(gl_WorkGroupID.xy * LOSS_TILE) - SSIM_RADIUS + ivec2(i % WIDE, chunk * WINDOW + i / WIDE), last = ivec2(camera.size) - 1;
    bool inside = at == clamp(at, ivec2(0), last);
    if (!METRIC && !inside) return Pixel(vec3(0.0), OPAQUE_BLACK);
    at = clamp(last - abs(last - abs(at)), ivec2(0), last);  // reflected: the border pixel is not repeated
    Pixel pixel = Pixel(seen(at), packed_photograph(at));
    if (pixel.y == IGNORED) return Pixel(vec3(0.0), OPAQUE_BLACK);  // as beyond the border
    if (METRIC) pixel.x = clamp(pixel.x, 0.0, 1.0);
    return pixel;
}

// Windowed sums of x, y, x^2, y^2 and x y along the row that begins at `first`.
float[5] row_sums(uint turn, uint c, int first) {
    float sums[5] = float[5](0.0, 0.0, 0.0, 0.0, 0.0);
    [[unroll]] for (int k = 0; k < WINDOW; ++k) {
        vec2 v = rows[turn][c][first + k], weighted = SSIM_WINDOW[k] * v;
        sums[0] += weighted.x;
        sums[1] += weighted.y;
        sums[2] += weighted.x * v.x;
        sums[3] += weighted.y * v.y;
        sums[4] += weighted.x * v.y;
    }
    return sums;
}

void main() {
    if (any(greaterThanEqual(gl_WorkGroupID.xy, loss_tiles(camera.size)))) return;  // the canvas is larger than this image
    begin_seen();
    int t = int(gl_LocalInvocationIndex), column = int(gl_LocalInvocationID.x);
    uint c = gl_LocalInvocationID.y, plane = camera.size.x * camera.size.y;
    vec3 only = vec3(equal(uvec3(c), uvec3(0u, 1u, 2u)));  // terms are sums over colours, and nothing is lost where both images are 0
    float windows[WINDOW][5];
    [[unroll]] for (int s = 0; s < WINDOW; ++s) windows[s] = float[5](0.0, 0.0, 0.0, 0.0, 0.0);
    Sums sums = no_sums();
    Pixel loaded[ROUNDS];
    [[unroll]] for (int r = 0; r < ROUNDS; ++r)
        if (t + r * THREADS < LOADS) loaded[r] = load(0, t + r * THREADS);
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
        uint turn = uint(chunk) & 1u;
        barrier();  // nobody reads the rows of the chunk before the last any more
        [[unroll]] for (int r = 0; r < ROUNDS; ++r) {
            int i = t + r * THREADS;
            if (i >= LOADS) continue;
            vec3 y = photograph(loaded[r].y);
            [[unroll]] for (uint k = 0u; k < 3u; ++k) rows[turn][k][i] = vec2(loaded[r].x[k], y[k]) - SSIM_GREY;
        }
        barrier();
        [[unroll]] for (int r = 0; r < ROUNDS; ++r)
            if (chunk + 1 < CHUNKS && t + r * THREADS < LOADS) loaded[r] = load(chunk + 1, t + r * THREADS);
        [[unroll]] for (int u = 0; u < WINDOW; ++u) {
            int row = chunk * WINDOW + u - 2 * SSIM_RADIUS;  // of the window that is complete
            float here[5] = row_sums(turn, c, u * WIDE + column);
            [[unroll]] for (int s = 0; s < WINDOW; ++s) {
                float weight = SSIM_WINDOW[(u - s + WINDOW) % WINDOW];
                [[unroll]] for (int m = 0; m < 5; ++m) windows[s][m] = (s == u ? 0.0 : windows[s][m]) + weight * here[m];
            }
            uvec2 at = gl_WorkGroupID.xy * LOSS_TILE + uvec2(column, row);
            if (row < 0 || row >= int(LOSS_TILE) || any(greaterThanEqual(at, camera.size))) continue;
            float found[5] = windows[(u + 1) % WINDOW];
            vec3 d;
            float value = ssim(Moments(found[0], found[1], found[2], found[3], found[4]), d);
            bool kept = PHOTO_BYTES == 3u || packed_photograph(ivec2(at)) != IGNORED;  // what a mask leaves out counts as matched
            [[unroll]] for (uint m = 0u; m < 3u; ++m)
                if (!METRIC) ssim_grads[(3u * c + m) * plane + at.y * camera.size.x + at.x] = kept ? d[m] : 0.0;
            if (!kept) continue;
            const bool BEFORE = u < SSIM_RADIUS;  // where the middle row of the window is
            vec2 own = rows[BEFORE ? 1u - turn : turn][c][(u - SSIM_RADIUS + (BEFORE ? WINDOW : 0)) * WIDE + column + SSIM_RADIUS] + SSIM_GREY;
            add_pixel(sums, Compared(own.x * only, own.y * only, own.x * only, mix(vec3(1.0), vec3(value), only), vec3(0.0)));
        }
    }
    store_sums(sums, loss_tiles(camera.size));
}
