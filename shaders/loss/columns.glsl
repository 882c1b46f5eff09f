// What the passes of SSIM share that go down columns. A workgroup has a tile of LOSS_TILE x LOSS_TILE pixels, a thread one of its columns in one colour. It makes the sums of
// its window along each row and adds them to the eleven windows that have the row, which it keeps in registers; the one that is complete leaves. Rows come into shared memory
// as many at a time as a window has, while the next ones are on their way.
// All is written out, for what a loop indexes may end up in memory.
#include "contract/loss.glsl"
layout(local_size_x = LOSS_TILE, local_size_y = 3) in;

const int SIDE = int(LOSS_TILE), WIDE = SIDE + 2 * SSIM_RADIUS, WINDOW = 2 * SSIM_RADIUS + 1, LOADS = WIDE * WINDOW, THREADS = 3 * SIDE;
const int CHUNKS = (WIDE + WINDOW - 1) / WINDOW;  // of rows
const float W0 = SSIM_WINDOW[1], W1 = SSIM_WINDOW[2], W2 = SSIM_WINDOW[3], W3 = SSIM_WINDOW[4], W4 = SSIM_WINDOW[5], W5 = SSIM_WINDOW[6];

uvec2 loss_tiles(uvec2 size) { return (size + LOSS_TILE - 1u) / LOSS_TILE; }
float one_of(vec3 v, uint c) { return c == 0u ? v.r : c == 1u ? v.g : v.b; }

// The pixels of a chunk that a thread loads: t, t + THREADS and so on, five of them; the last thread's beyond the chunk are its last pixel again.
#define EACH_LOAD(DO) DO(l0, t) DO(l1, t + THREADS) DO(l2, t + 2 * THREADS) DO(l3, t + 3 * THREADS) DO(l4, min(t + 4 * THREADS, LOADS - 1))

ivec2 place_in_image(int chunk, int i) { return ivec2(gl_WorkGroupID.xy) * SIDE - SSIM_RADIUS + ivec2(i % WIDE, chunk * WINDOW + i / WIDE); }

// Row u of a chunk: SUMS_ALONG(u) joins the windows, of which A begins and K is complete.
#define STEP(u, A, B, C, D, E, F, G, H, I, J, K) { \
    SUMMED here = SUMS_ALONG(u); \
    A = times(here, W0); \
    add(B, here, W1); add(C, here, W2); add(D, here, W3); add(E, here, W4); add(F, here, W5); \
    add(G, here, W4); add(H, here, W3); add(I, here, W2); add(J, here, W1); add(K, here, W0); \
    complete(u, K); }
#define EACH_ROW \
    STEP(0, w0, w10, w9, w8, w7, w6, w5, w4, w3, w2, w1) \
    STEP(1, w1, w0, w10, w9, w8, w7, w6, w5, w4, w3, w2) \
    STEP(2, w2, w1, w0, w10, w9, w8, w7, w6, w5, w4, w3) \
    STEP(3, w3, w2, w1, w0, w10, w9, w8, w7, w6, w5, w4) \
    STEP(4, w4, w3, w2, w1, w0, w10, w9, w8, w7, w6, w5) \
    STEP(5, w5, w4, w3, w2, w1, w0, w10, w9, w8, w7, w6) \
    STEP(6, w6, w5, w4, w3, w2, w1, w0, w10, w9, w8, w7) \
    STEP(7, w7, w6, w5, w4, w3, w2, w1, w0, w10, w9, w8) \
    STEP(8, w8, w7, w6, w5, w4, w3, w2, w1, w0, w10, w9) \
    STEP(9, w9, w8, w7, w6, w5, w4, w3, w2, w1, w0, w10) \
    STEP(10, w10, w9, w8, w7, w6, w5, w4, w3, w2, w1, w0)
#define TAPS(DO) DO(0, W0) DO(1, W1) DO(2, W2) DO(3, W3) DO(4, W4) DO(5, W5) DO(6, W4) DO(7, W3) DO(8, W2) DO(9, W1) DO(10, W0)
