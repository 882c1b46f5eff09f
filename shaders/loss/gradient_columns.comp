// As loss/gradient.comp, down columns (21 KiB of shared memory). A thread has a colour while it convolves, and all colours of a pixel when it stores what came of it.
// Floor: read ssim_grads 36 B, target 4..16 B and photograph 4 B, write d_image 16 B a pixel.
#extension GL_EXT_control_flow_attributes : require
#include "ssim.glsl"
#include "loss/columns.glsl"
BUFFER_ssim_grads(readonly)
#include "loss/pixel.glsl"
#include "contract/d_pixel_terms.glsl"
#include <seen>
#include <result>

const int HERE = WINDOW * SIDE;
shared float by_means[3][LOADS];  // of the rows of a chunk, by colour: the derivatives by the mean,
shared vec2 by_products[3][LOADS];  // by the means of x^2 and x y
shared float d_ssims[3][HERE];  // of the pixels whose windows became complete

struct Nine { vec3 red, green, blue; };

Nine load(int chunk, int i) {
    ivec2 at = place_in_image(chunk, i);
    if (at != clamp(at, ivec2(0), ivec2(camera.size) - 1)) return Nine(vec3(0.0), vec3(0.0), vec3(0.0));
    uint plane = camera.size.x * camera.size.y, from = uint(at.y) * camera.size.x + uint(at.x);
    return Nine(
        vec3(ssim_grads[from], ssim_grads[from + plane], ssim_grads[from + 2u * plane]),
        vec3(ssim_grads[from + 3u * plane], ssim_grads[from + 4u * plane], ssim_grads[from + 5u * plane]),
        vec3(ssim_grads[from + 6u * plane], ssim_grads[from + 7u * plane], ssim_grads[from + 8u * plane]));
}

void put(int i, Nine values) {
    by_means[0][i] = values.red.x;
    by_means[1][i] = values.green.x;
    by_means[2][i] = values.blue.x;
    by_products[0][i] = values.red.yz;
    by_products[1][i] = values.green.yz;
    by_products[2][i] = values.blue.yz;
}

#define SUMMED vec3
vec3 times(vec3 f, float weight) { return weight * f; }
void add(inout vec3 to, vec3 f, float weight) { to += weight * f; }

int chunk = 0;

vec3 sums_along(int u) {
    int first = u * WIDE + int(gl_LocalInvocationID.x);
    uint c = gl_LocalInvocationID.y;
    vec3 sums = vec3(0.0);
#define TAP(k, weight) sums += weight * vec3(by_means[c][first + k], by_products[c][first + k]);
    TAPS(TAP)
    return sums;
}
#define SUMS_ALONG(u) sums_along(u)

void complete(int u, vec3 window) {
    int row = chunk * WINDOW + u - 2 * SSIM_RADIUS;
    uint c = gl_LocalInvocationID.y;
    ivec2 at = ivec2(gl_WorkGroupID.xy) * SIDE + ivec2(gl_LocalInvocationID.x, row);
    if (row < 0 || row >= SIDE || any(greaterThanEqual(at, ivec2(camera.size)))) return;
    d_ssims[c][u * SIDE + int(gl_LocalInvocationID.x)] = ssim_backward(window, one_of(seen(at), c), one_of(photograph(packed_photograph(at)), c));
}

void store(ivec2 at, vec3 d_ssim) {
    ivec2 nearest = min(at, ivec2(camera.size) - 1);
    uint packed = packed_photograph(nearest);
    vec3 x = seen(nearest);
    result(at, packed != IGNORED && at == nearest, 1.0 / float(3u * camera.size.x * camera.size.y), Compared(x, photograph(packed), x, vec3(0.0), d_ssim));
}

void convolve() {
    int t = int(gl_LocalInvocationIndex);
    vec3 w0 = vec3(0.0), w1 = w0, w2 = w0, w3 = w0, w4 = w0, w5 = w0, w6 = w0, w7 = w0, w8 = w0, w9 = w0, w10 = w0;
    Nine l0, l1, l2, l3, l4;
#define LOAD_FIRST(l, i) l = load(0, i);
    EACH_LOAD(LOAD_FIRST)
    for (; chunk < CHUNKS; ++chunk) {
#define PUT(l, i) put(i, l);
        EACH_LOAD(PUT)
        barrier();
#define LOAD_NEXT(l, i) l = load(chunk + 1, i);
        if (chunk + 1 < CHUNKS) { EACH_LOAD(LOAD_NEXT) }
        EACH_ROW
        barrier();
        for (int i = t; i < HERE; i += THREADS) {
            int row = chunk * WINDOW - 2 * SSIM_RADIUS + i / SIDE;
            if (row >= 0 && row < SIDE) store(ivec2(gl_WorkGroupID.xy) * SIDE + ivec2(i % SIDE, row), vec3(d_ssims[0][i], d_ssims[1][i], d_ssims[2][i]));
        }
    }
}

void main() {
    begin_seen();
    begin_result();
    if (all(lessThan(gl_WorkGroupID.xy, loss_tiles(camera.size)))) {
        convolve();
    } else {  // the canvas is larger than this image
        for (int i = int(gl_LocalInvocationIndex); i < SIDE * SIDE; i += THREADS) store(ivec2(gl_WorkGroupID.xy) * SIDE + ivec2(i % SIDE, i / SIDE), vec3(0.0));
    }
    end_result();
}
