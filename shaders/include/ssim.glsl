// Structural similarity in windows of 11 x 11 pixels: Wang, Bovik, Sheikh & Simoncelli, "Image
// Quality Assessment: From Error Visibility to Structural Similarity" (2004), equation 13 with the
// Gaussian window of section III.B; as a loss: Zhao, Gallo, Frosio & Kautz, "Loss Functions for
// Image Restoration With Neural Networks" (2017), equations 7 to 9.
#include "contract/loss.glsl"
#extension GL_EXT_control_flow_attributes : require

const float SSIM_C1 = 0.01 * 0.01, SSIM_C2 = 0.03 * 0.03;  // for values in 0..1

// The sums of a window are made separably by TILE x TILE threads for TILE x 2 TILE pixels: a thread
// makes blocks of four row sums, side by side, and then its own two column sums, one above the
// other, from values that it reads once. SSIM_AREA has the neighbours that its windows reach.
const ivec2 SSIM_TILE = ivec2(TILE, 2u * TILE), SSIM_AREA = SSIM_TILE + 2 * SSIM_RADIUS;
const int SSIM_PAIRS = SSIM_AREA.x / 2;
// Pairs to load, blocks of row sums.
const int SSIM_LOADS = SSIM_PAIRS * SSIM_AREA.y, SSIM_SUMS = SSIM_TILE.x / 4 * SSIM_AREA.y;

// First column and row of a block. Threads have blocks one below another, and a row has an odd
// number of pairs: no bank conflict.
ivec2 ssim_block(int i) { return ivec2(i / SSIM_AREA.y * 4, i % SSIM_AREA.y); }

uvec2 ssim_tiles(uvec2 size) { return (size + uvec2(SSIM_TILE) - 1u) / uvec2(SSIM_TILE); }

// exp(-k^2 / (2 * 1.5^2)) over its sum: value k enters sum r of a thread with SSIM_WINDOW[k - r],
// where the window reaches it.
const float SSIM_WINDOW[11] = float[11](
    0.001028380084, 0.007598758135, 0.03600077213, 0.1093606895, 0.2130055377, 0.2660117249,
    0.2130055377, 0.1093606895, 0.03600077213, 0.007598758135, 0.001028380084);
bool ssim_reaches(int k) { return k >= 0 && k < 11; }

// Channels are taken one after the other by a loop that stays one: written out three times, the
// code of a loss is 38 KiB, and what is waited for is its instructions. So a channel's number is no
// constant, and what it picks must not be in memory for that.
float channel_of(vec3 v, int c) { return c == 0 ? v.r : c == 1 ? v.g : v.b; }
void put_channel(inout vec3 v, int c, float value) {
    v = vec3(c == 0 ? value : v.r, c == 1 ? value : v.g, c == 2 ? value : v.b);
}

// Values are taken relative to this grey: variances do not change, and E[x^2] - E[x]^2 cancels
// fewer digits.
const float SSIM_GREY = 0.5;

// SSIM = (2 mu_x mu_y + C1)(2 sigma_xy + C2) / ((mu_x^2 + mu_y^2 + C1)(sigma_x^2 + sigma_y^2 + C2))
// = A1 A2 / (B1 B2) of m: windowed means of (x, y, x^2 + y^2, x y), of values relative to
// SSIM_GREY, where the variances enter as their sum; and d: its derivatives by the means of x, x^2
// and x y.
float ssim(vec4 m, out vec3 d) {
    float mu_x = m.x + SSIM_GREY, mu_y = m.y + SSIM_GREY;
    float A1 = 2.0 * mu_x * mu_y + SSIM_C1, A2 = 2.0 * (m.w - m.x * m.y) + SSIM_C2;
    float B1 = mu_x * mu_x + mu_y * mu_y + SSIM_C1, B2 = (m.z - (m.x * m.x + m.y * m.y)) + SSIM_C2;
    float per_B = 1.0 / (B1 * B2);
    float value = A1 * A2 * per_B;
    d.y = -value * B1 * per_B;
    d.z = 2.0 * A1 * per_B;
    // sigma_x^2 = E[x^2] - mu_x^2 and sigma_xy = E[x y] - mu_x mu_y depend on mu_x too
    d.x = 2.0 * (mu_y * A2 * per_B - mu_x * value * B2 * per_B) - 2.0 * m.x * d.y - m.y * d.z;
    return value;
}

// What pixel (x, y) gets back: the derivatives of all windows that see it, weighted as they weight
// it (the window is symmetric).
float ssim_backward(vec3 d, float x, float y) {
    return d.x + 2.0 * (x - SSIM_GREY) * d.y + (y - SSIM_GREY) * d.z;
}
