// The two images that the loss compares.
#include "contract/loss.glsl"
SAMPLED_target
// Bytes of a pixel: 3 where no photograph has alpha or a mask.
layout(constant_id = 9) const uint PHOTO_BYTES = 4u;
BUFFER_photos(readonly)
BUFFER_camera(readonly)
BUFFER_frame(readonly)

vec3 rendered(ivec2 at) {
    vec4 pixel = texelFetch(target, at, 0);
    return pixel.rgb + pixel.a * frame.background;
}

// The word of `photos` at a pixel, IGNORED where a mask takes it out, and its colour: where the
// photograph is transparent it shows the background that the splats have.
const uint OPAQUE_BLACK = 0xFF000000u;
vec3 photograph(uint packed) {
    vec4 pixel = unpackUnorm4x8(packed);
    return pixel.rgb + (1.0 - pixel.a) * frame.background;
}
uint packed_photograph(ivec2 at) {
    uint i = camera.photo + uint(at.y) * camera.size.x + uint(at.x);
    if (PHOTO_BYTES == 4u) return photos[i];
    uint first = 3u * i / 4u, shift = 8u * (3u * i % 4u), low = photos[first] >> shift;
    // Whose three bytes are set.
    return OPAQUE_BLACK | (shift > 8u ? low | photos[first + 1u] << (32u - shift) : low) & IGNORED;
}
