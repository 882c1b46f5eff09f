// What scores add up over a splat's pixels, in the place of its gradient: the strength of edges in
// the photograph, and 1.
#include "contract/loss.glsl"
#include "contract/refine.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
STORE_d_image
#include "loss/pixel.glsl"

float grey(uint packed) { return dot(photograph(packed), vec3(1.0 / 3.0)); }

// The Laplacian of the photograph in grey, over its eight neighbours (Deng et al. 2025,
// "Improved-GS"). A neighbour that is left out has the pixel's own grey: the border of a mask is no
// edge.
float edge(ivec2 at, float here) {
    float sum = 9.0 * here;
    for (int y = -1; y <= 1; ++y)
        for (int x = -1; x <= 1; ++x) {
            ivec2 there = clamp(at + ivec2(x, y), ivec2(0), ivec2(camera.size) - 1);
            uint packed = packed_photograph(there);
            sum -= packed == IGNORED ? here : grey(packed);
        }
    return abs(sum);
}

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    if (any(greaterThanEqual(at, imageSize(d_image)))) return;
    vec3 weights = vec3(0.0);
    // The canvas may be larger than this image.
    bool inside = all(lessThan(at, ivec2(camera.size)));
    uint packed = inside ? packed_photograph(at) : IGNORED;
    if (packed != IGNORED)
        weights = vec3(edge(at, grey(packed)), 0.0, 1.0);
    imageStore(d_image, at, vec4(weights, 0.0));
}
