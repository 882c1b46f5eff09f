// The window of an image fit: the drawn image as large as the window holds it. A pixel of the
// window is the mean of those of the image under it.
#include "contract/view.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
SAMPLED_target
BUFFER_frame(readonly)
BUFFER_window_shown(readonly)
STORE_screen

const vec3 EMPTY = vec3(0.12);

void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    if (any(greaterThanEqual(at, window_shown.size))) return;
    vec2 image = vec2(textureSize(target, 0)), window = vec2(window_shown.size);
    // A pixel of the window, in those of the image.
    float side = max(image.x / window.x, image.y / window.y);
    vec2 low = (vec2(at) - 0.5 * (window - image / side)) * side, centre = low + 0.5 * side;
    vec3 color = EMPTY;
    if (all(greaterThanEqual(centre, vec2(0.0))) && all(lessThan(centre, image))) {
        ivec2 last = ivec2(image) - 1,
              first = clamp(ivec2(side > 1.0 ? round(low) : floor(centre)), ivec2(0), last);
        ivec2 behind =
            side > 1.0 ? clamp(ivec2(round(low + side)), first + 1, last + 1) : first + 1;
        color = vec3(0.0);
        for (int y = first.y; y < behind.y; ++y)
            for (int x = first.x; x < behind.x; ++x) {
                vec4 pixel = texelFetch(target, ivec2(x, y), 0);
                color += clamp(pixel.rgb + pixel.a * frame.background, 0.0, 1.0);
            }
        color /= float((behind.x - first.x) * (behind.y - first.y));
    }
    imageStore(screen, ivec2(at), vec4(color, 1.0));
}
