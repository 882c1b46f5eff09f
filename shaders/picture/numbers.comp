// What is displayed of numbers: each by its place in the palette, as far as there is something
// behind it.
#include "contract/picture.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
layout(constant_id = 0) const bool TRANSPARENT = false;
SAMPLED_target
STORE_shown
BUFFER_frame(readonly)
BUFFER_palette(readonly)
BUFFER_values(writeonly)
#include "picture/pictures.glsl"

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy), size = textureSize(target, 0);
    if (any(greaterThanEqual(at, size))) return;
    vec2 value = value_of(texelFetch(target, at, 0));  // and how much of it is there
    values[at.y * size.x + at.x] = value.x;
    float place = clamp((value.x - palette.low) / (palette.high - palette.low), 0.0, 1.0);
    vec3 color = unpackUnorm4x8(palette.colors[uint(place * 255.0 + 0.5)]).rgb;
    imageStore(shown, at,
               TRANSPARENT ? vec4(color, value.y)
                           : vec4(mix(frame.background, color, clamp(value.y, 0.0, 1.0)), 1.0));
}
