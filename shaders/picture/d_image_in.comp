// A tensor of gradients -> d_image, zero outside the camera's part. Floor: read 12 B, write 16 B a
// pixel.
#include "contract/tensors.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
STORE_d_image
BUFFER_camera(readonly)
BUFFER_d_image_in(readonly)

void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    vec4 d = vec4(0.0);
    uint i = 3u * (at.y * camera.size.x + at.x);
    if (all(lessThan(at, camera.size)))
        d.rgb = vec3(d_image_in[i], d_image_in[i + 1u], d_image_in[i + 2u]);
    imageStore(d_image, ivec2(at), d);  // stores outside the canvas are dropped
}
