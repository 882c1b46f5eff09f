// Tensors of gradients -> d_image, zero outside the camera's part. Floor: read 32 B, write 16 B a
// pixel.
#include "contract/tensors.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
SAMPLED_target
STORE_d_image
BUFFER_camera(readonly)
BUFFER_d_image_in(readonly)

void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    vec4 d = vec4(0.0);
    if (all(lessThan(at, camera.size))) {
        uint i = at.y * camera.size.x + at.x, first_T = 3u * camera.size.x * camera.size.y;
        for (uint channel = 0u; channel < 3u; ++channel) d[channel] = d_image_in[3u * i + channel];
        d.a = d_image_in[first_T + i] * texelFetch(target, ivec2(at), 0).a;
    }
    imageStore(d_image, ivec2(at), d);  // stores outside the canvas are dropped
}
