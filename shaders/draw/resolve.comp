// The finished pixels from those of the depth segments, nearest first: each is seen through the
// transmittance of all before it.
#include "contract/draw.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
SAMPLED_layers
BUFFER_frame(readonly)
STORE_target
#include "draw/layers.glsl"

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    vec4 pixel = vec4(0.0, 0.0, 0.0, 1.0);
    for (uint segment = 0u; segment < SEGMENTS; ++segment)
        pixel = behind(pixel, layer(at, segment));
    imageStore(target, at, pixel);  // stores outside the image are dropped
}
