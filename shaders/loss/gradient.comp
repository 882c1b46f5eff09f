// What the gradient draws need of L = (1 - lambda) mean|x - y| + lambda (1 - mean SSIM), Kerbl et al. 2023, equation 7: see <result>.
// The derivatives in ssim_grads are convolved as the moments were, see loss/ssim.comp (21 KiB of shared memory). A thread has a colour while it convolves, and all colours of
// a pixel when it hands on what came of it.
// Floor: read ssim_grads 36 B, target 4..16 B and photograph 4 B, write d_image 16 B a pixel (or read target_minus and write 4 B).
#include "contract/loss.glsl"
#include "loss/tiles.glsl"
layout(local_size_x = LOSS_TILE, local_size_y = 3) in;
BUFFER_ssim_grads(readonly)
#include "ssim.glsl"
#include "loss/pixel.glsl"
#include "contract/d_pixel_terms.glsl"
#include <seen>

const int WINDOW = 2 * SSIM_RADIUS + 1, WIDE = int(LOSS_TILE) + 2 * SSIM_RADIUS, LOADS = WIDE * WINDOW, THREADS = 3 * int(LOSS_TILE);
const int ROUNDS = (LOADS + THREADS - 1) / THREADS, CHUNKS = (WIDE + WINDOW - 1) / WINDOW, HERE = WINDOW * int(LOSS_TILE);
// Of WINDOW rows, by colour: the derivatives by the mean, and by the means of x^2 and x y.
shared float by_means[3 * LOADS];
shared vec2 pairs[max(3 * LOADS, int(SEEN_PAIRS))];
shared float d_ssims[3][HERE];  // of the pixels whose windows became complete
#include <result>

float[9] load(int chunk, int i) {
    ivec2 at = ivec2(gl_WorkGroupID.xy * LOSS_TILE) - SSIM_RADIUS + ivec2(i % WIDE, chunk * WINDOW + i / WIDE);
    float values[9];
    bool inside = at == clamp(at, ivec2(0), ivec2(camera.size) - 1);
    uint plane = camera.size.x * camera.size.y, from = uint(at.y) * camera.size.x + uint(at.x);
    [[unroll]] for (uint m = 0u; m < 9u; ++m) values[m] = inside ? ssim_grads[m * plane + from] : 0.0;
    return values;
}

vec3 row_sums(int first) {
    vec3 sums = vec3(0.0);
    [[unroll]] for (int k = 0; k < WINDOW; ++k) sums += SSIM_WINDOW[k] * vec3(by_means[first + k], pairs[first + k]);
    return sums;
}

void hand_on(ivec2 at, vec3 d_ssim) {
    ivec2 last = ivec2(camera.size) - 1, nearest = min(at, last);
    uint packed = packed_photograph(nearest);
    vec3 x = seen(nearest);
    result(at, packed != IGNORED && at == nearest, 1.0 / float(3u * camera.size.x * camera.size.y), Compared(x, photograph(packed), x, vec3(0.0), d_ssim));
}

void convolve(ivec2 corner) {
    int t = int(gl_LocalInvocationIndex), column = int(gl_LocalInvocationID.x), c = int(gl_LocalInvocationID.y);
    vec3 windows[WINDOW];
    float loaded[ROUNDS][9];
    [[unroll]] for (int s = 0; s < WINDOW; ++s) windows[s] = vec3(0.0);
    [[unroll]] for (int r = 0; r < ROUNDS; ++r)
        if (t + r * THREADS < LOADS) loaded[r] = load(0, t + r * THREADS);
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
        int first_row = chunk * WINDOW - 2 * SSIM_RADIUS;
        [[unroll]] for (int r = 0; r < ROUNDS; ++r) {
            int i = t + r * THREADS;
            if (i >= LOADS) continue;
            [[unroll]] for (int k = 0; k < 3; ++k) {
                by_means[k * LOADS + i] = loaded[r][3 * k];
                pairs[k * LOADS + i] = vec2(loaded[r][3 * k + 1], loaded[r][3 * k + 2]);
            }
        }
        barrier();
        [[unroll]] for (int r = 0; r < ROUNDS; ++r)
            if (chunk + 1 < CHUNKS && t + r * THREADS < LOADS) loaded[r] = load(chunk + 1, t + r * THREADS);
        [[unroll]] for (int u = 0; u < WINDOW; ++u) {
            vec3 here = row_sums(c * LOADS + u * WIDE + column);
            [[unroll]] for (int s = 0; s < WINDOW; ++s) windows[s] = (s == u ? vec3(0.0) : windows[s]) + SSIM_WINDOW[(u - s + WINDOW) % WINDOW] * here;
            ivec2 at = corner + ivec2(column, first_row + u);
            if (first_row + u < 0 || any(greaterThanEqual(at, ivec2(camera.size)))) continue;
            d_ssims[c][u * int(LOSS_TILE) + column] = ssim_backward(windows[(u + 1) % WINDOW], seen(at)[c], photograph(packed_photograph(at))[c]);
        }
        barrier();
        for (int i = t; i < HERE; i += THREADS) {
            int row = first_row + i / int(LOSS_TILE);
            if (row >= 0 && row < int(LOSS_TILE)) hand_on(corner + ivec2(i % int(LOSS_TILE), row), vec3(d_ssims[0][i], d_ssims[1][i], d_ssims[2][i]));
        }
    }
}

void main() {
    begin_seen();
    begin_result();
    ivec2 corner = ivec2(gl_WorkGroupID.xy * LOSS_TILE);
    if (all(lessThan(gl_WorkGroupID.xy, loss_tiles(camera.size)))) {
        convolve(corner);
    } else {  // the canvas is larger than this image
        for (int i = int(gl_LocalInvocationIndex); i < int(LOSS_TILE * LOSS_TILE); i += THREADS) hand_on(corner + ivec2(i % int(LOSS_TILE), i / int(LOSS_TILE)), vec3(0.0));
    }
    end_result();
}
