// The two images that the loss compares.
SAMPLED_target
BUFFER_photos(readonly)
BUFFER_camera(readonly)
BUFFER_frame(readonly)

vec3 rendered(ivec2 at) {
    vec4 pixel = texelFetch(target, at, 0);
    return pixel.rgb + pixel.a * frame.background;
}

// The word of `photos` at a pixel, and its colour: where the photograph is transparent it shows the background that the splats have.
const uint OPAQUE_BLACK = 0xFF000000u;
vec3 photograph(uint packed) {
    vec4 pixel = unpackUnorm4x8(packed);
    return pixel.rgb + (1.0 - pixel.a) * frame.background;
}
uint packed_photograph(ivec2 at) { return photos[camera.photo + uint(at.y) * camera.size.x + uint(at.x)]; }
