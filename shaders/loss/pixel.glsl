// The two images that the loss compares.
SAMPLED_target
BUFFER_photos(readonly)
BUFFER_camera(readonly)
BUFFER_frame(readonly)

vec3 rendered(ivec2 at) {
    vec4 pixel = texelFetch(target, at, 0);
    return pixel.rgb + pixel.a * frame.background;
}

uint packed_photograph(ivec2 at) { return photos[camera.photo + uint(at.y) * camera.size.x + uint(at.x)]; }
