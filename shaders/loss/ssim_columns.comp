// SSIM of the rendering against the photograph, the terms of the loss, the squared error, and what the gradient of SSIM needs; 22 KiB of shared memory.
// Floor: read target 4..16 B (by format) and photograph 4 B, write ssim_grads 36 B a pixel; the neighbours of a tile come from cache.
#extension GL_EXT_control_flow_attributes : require
#include "ssim.glsl"
#include "loss/columns.glsl"
BUFFER_ssim_grads(writeonly)
BUFFER_loss_sums(writeonly)
#include "loss/pixel.glsl"
#include "loss/sum.glsl"
#include "loss/store_sums.glsl"
#include <seen>

shared vec2 rows[2][3][LOADS];  // (x, y) of the rows of this chunk and of the one before or behind it, by colour

struct Pixel { vec3 x; uint y; };  // the photograph stays packed: it waits in registers

Pixel load(int chunk, int i) {
    ivec2 at = place_in_image(chunk, i);
    if (at != clamp(at, ivec2(0), ivec2(camera.size) - 1)) return Pixel(vec3(0.0), OPAQUE_BLACK);
    Pixel pixel = Pixel(seen(at), packed_photograph(at));
    if (pixel.y == IGNORED) return Pixel(vec3(0.0), OPAQUE_BLACK);  // as beyond the border
    return pixel;
}

void put(uint turn, int i, Pixel pixel) {
    vec3 x = pixel.x - SSIM_GREY, y = photograph(pixel.y) - SSIM_GREY;
    rows[turn][0][i] = vec2(x.r, y.r);
    rows[turn][1][i] = vec2(x.g, y.g);
    rows[turn][2][i] = vec2(x.b, y.b);
}

struct Five { vec4 four; float fifth; };  // windowed sums of x, y, x^2, y^2; of x y
#define SUMMED Five
Five times(Five f, float weight) { return Five(weight * f.four, weight * f.fifth); }
void add(inout Five to, Five f, float weight) {
    to.four += weight * f.four;
    to.fifth += weight * f.fifth;
}

int chunk = 0;
uint turn = 0u;
vec3 only;  // 1 for the colour of this thread
Sums sums;

Five sums_along(int u) {
    int first = u * WIDE + int(gl_LocalInvocationID.x);
    uint c = gl_LocalInvocationID.y;
    vec4 four = vec4(0.0);
    float fifth = 0.0;
#define TAP(k, weight) { \
        vec2 v = rows[turn][c][first + k], weighted = weight * v; \
        four += vec4(weighted, weighted * v); \
        fifth += weighted.x * v.y; }
    TAPS(TAP)
    return Five(four, fifth);
}
#define SUMS_ALONG(u) sums_along(u)

void complete(int u, Five window) {
    int row = chunk * WINDOW + u - 2 * SSIM_RADIUS, column = int(gl_LocalInvocationID.x);
    uint c = gl_LocalInvocationID.y;
    uvec2 at = gl_WorkGroupID.xy * LOSS_TILE + uvec2(column, row);
    if (row < 0 || row >= SIDE || any(greaterThanEqual(at, camera.size))) return;
    vec3 d;
    float value = ssim(Moments(window.four.x, window.four.y, window.four.z, window.four.w, window.fifth), d);
    bool kept = PHOTO_BYTES == 3u || packed_photograph(ivec2(at)) != IGNORED;  // what a mask leaves out counts as matched
    uint plane = camera.size.x * camera.size.y, place = 3u * c * plane + at.y * camera.size.x + at.x;
    ssim_grads[place] = kept ? d.x : 0.0;
    ssim_grads[place + plane] = kept ? d.y : 0.0;
    ssim_grads[place + 2u * plane] = kept ? d.z : 0.0;
    if (!kept) return;
    bool before = u < SSIM_RADIUS;  // where the middle row of the window is
    vec2 own = rows[before ? 1u - turn : turn][c][(u - SSIM_RADIUS + (before ? WINDOW : 0)) * WIDE + column + SSIM_RADIUS] + SSIM_GREY;
    // A term is a sum over colours, and nothing is lost of one in which both images are 0.
    add_pixel(sums, Compared(own.x * only, own.y * only, own.x * only, mix(vec3(1.0), vec3(value), only), vec3(0.0)));
}

void main() {
    if (any(greaterThanEqual(gl_WorkGroupID.xy, loss_tiles(camera.size)))) return;  // the canvas is larger than this image
    begin_seen();
    int t = int(gl_LocalInvocationIndex);
    only = vec3(equal(uvec3(gl_LocalInvocationID.y), uvec3(0u, 1u, 2u)));
    sums = no_sums();
    Five w0 = Five(vec4(0.0), 0.0), w1 = w0, w2 = w0, w3 = w0, w4 = w0, w5 = w0, w6 = w0, w7 = w0, w8 = w0, w9 = w0, w10 = w0;
    Pixel l0, l1, l2, l3, l4;
#define LOAD_FIRST(l, i) l = load(0, i);
    EACH_LOAD(LOAD_FIRST)
    for (; chunk < CHUNKS; ++chunk) {
        turn = uint(chunk) & 1u;
        barrier();  // nobody reads the rows of the chunk before the last any more
#define PUT(l, i) put(turn, i, l);
        EACH_LOAD(PUT)
        barrier();
#define LOAD_NEXT(l, i) l = load(chunk + 1, i);
        if (chunk + 1 < CHUNKS) { EACH_LOAD(LOAD_NEXT) }
        EACH_ROW
    }
    store_sums(sums, loss_tiles(camera.size));
}
