// L = mean (x - y)^2 over all values: its gradient, and the sums of the step's record. Floor: read
// target 4..16 B and photograph 4 B, write d_image 16 B a pixel.
#include "contract/loss.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
BUFFER_loss_sums(writeonly)
STORE_d_image
#include "ssim.glsl"
#include "loss/seen.glsl"
#include "loss/sum.glsl"
#include "loss/store_sums.glsl"

void main() {
    // A thread has 2 pixels, as in the other losses, whose sums have the same places.
    uvec2 tiles = ssim_tiles(camera.size);
    float per_value = 1.0 / float(3u * camera.size.x * camera.size.y);
    Sums sums = no_sums();
    [[unroll]] for (uint r = 0u; r < 2u; r++) {
        ivec2 at = ivec2(gl_GlobalInvocationID.xy * uvec2(1u, 2u) + uvec2(0u, r));
        vec3 difference = vec3(0.0);
        if (all(lessThan(at, ivec2(camera.size)))) {
            uint packed = packed_photograph(at);
            if (packed != IGNORED) {
                vec3 x = rendered(at), y = photograph(packed);
                difference = x - y;
                add_pixel(sums, Compared(at, x, y, x, vec3(1.0), vec3(0.0)));  // it knows no SSIM
            }
        }
        // Stores outside the canvas are dropped.
        imageStore(d_image, at, vec4(2.0 * per_value * difference, 0.0));
    }
    store_sums(sums, tiles);
}
