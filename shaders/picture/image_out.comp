// The camera's part of the image as tensors have it. Floor: read 16 B, write 16 B a pixel.
#include "contract/tensors.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
SAMPLED_target
BUFFER_camera(readonly)
BUFFER_image_out(writeonly)

void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    if (any(greaterThanEqual(at, camera.size))) return;
    vec4 pixel = texelFetch(target, ivec2(at), 0);
    uint i = at.y * camera.size.x + at.x;
    for (uint channel = 0u; channel < 3u; ++channel) image_out[3u * i + channel] = pixel[channel];
    image_out[3u * camera.size.x * camera.size.y + i] = pixel.a;
}
