// The backward state starts as the finished pixel with its background, and T_0 = 1.
#include "contract.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
SAMPLED_target
STORE_state
BUFFER_frame(readonly)

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    vec4 pixel = texelFetch(target, min(at, textureSize(target, 0) - 1), 0);
    imageStore(state, at, vec4(pixel.rgb + pixel.a * frame.background, 1.0));  // stores outside the image are dropped
}
