// What is displayed of colours: over the background, or with the straight alpha that PNG has.
#include "contract/picture.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
layout(constant_id = 0) const bool TRANSPARENT = false;
SAMPLED_target
STORE_shown
BUFFER_frame(readonly)

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    if (any(greaterThanEqual(at, textureSize(target, 0)))) return;
    vec4 pixel = texelFetch(target, at, 0);
    float alpha = 1.0 - pixel.a;
    vec4 color = TRANSPARENT ? vec4(alpha > 0.0 ? pixel.rgb / alpha : vec3(0.0), alpha)
                             : vec4(pixel.rgb + pixel.a * frame.background, 1.0);
    imageStore(shown, at, clamp(color, 0.0, 1.0));
}
