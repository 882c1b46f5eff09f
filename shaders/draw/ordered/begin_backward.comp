// The backward state of each depth segment starts as what of the finished pixel, background
// included, is not in front of it, and the transmittance down to it.
#include "contract/draw.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
SAMPLED_layers
STORE_state
BUFFER_frame(readonly)
#include "draw/layers.glsl"

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy), size = textureSize(layers, 0) / ivec2(1, SEGMENTS);
    if (any(greaterThanEqual(at, size))) return;
    vec4 whole = vec4(0.0, 0.0, 0.0, 1.0), front = whole;
    for (uint segment = 0u; segment < SEGMENTS; ++segment)
        whole = behind(whole, layer(at, segment));
    vec3 pixel = whole.rgb + whole.a * frame.background;
    for (uint segment = 0u; segment < SEGMENTS; ++segment) {
        imageStore(state, at + ivec2(0, segment * uint(size.y)), vec4(pixel - front.rgb, front.a));
        front = behind(front, layer(at, segment));
    }
}
