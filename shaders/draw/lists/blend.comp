// The image from listed fragments: a thread blends those of a block of pixels, nearest first. A
// finished pixel takes no more.
#include "contract/fragments.glsl"
#include "contract/image.glsl"
#include "contract/sort.glsl"
#include "contract/splats.glsl"
#include "gaussian2d.glsl"
#include "picture/pictures.glsl"
layout(local_size_x = 8, local_size_y = 8) in;
layout(constant_id = 1) const float LARGEST = 1.0;  // colour that the target can hold
STORE_target
BUFFER_order(readonly)
BUFFER_splats2d(readonly)
BUFFER_colors2d(readonly)
BUFFER_fragment_lists(readonly)
BUFFER_fragments(readonly)
#include "draw/lists/block.glsl"

void main() {
    uvec2 block = gl_GlobalInvocationID.xy;
    if (block.x >= BLOCKS_X || block.y >= BLOCKS_Y) return;
    uint node = fragment_lists[place_of(block, 0u)].first;
    ivec2 corner = ivec2(block * uvec2(BLOCK_W, BLOCK_H));
    vec4 pixels[PIXELS];
    for (uint i = 0u; i < PIXELS; ++i) pixels[i] = vec4(0.0, 0.0, 0.0, 1.0);
    uint least = 0u;  // that a rank can have: a list in order ends
    for (bool open = true; open && node != NO_FRAGMENT; node = fragments[node].next) {
        uint rank = fragments[node].rank;
        if (rank < least) break;
        least = rank + 1u;
        uint splat = order[rank];
        Splat2D s = splats2d[splat];
        vec4 color = min(colors2d[splat], vec4(vec3(LARGEST), 1.0));
        open = false;
        for (uint i = 0u; i < PIXELS; ++i) {
            vec2 from = s.mean - vec2(corner) - vec2(pixel_of(i)) - 0.5;
            float alpha = alpha_of(color.a * gaussian(from, s.conic), from, s.conic);
            if (alpha >= ALPHA_MIN && pixels[i].a >= T_MIN)
                pixels[i] = blended(pixels[i], alpha, color_at(color.rgb, from));
            open = open || pixels[i].a >= T_MIN;
        }
    }
    // Stores outside the image are dropped.
    for (uint i = 0u; i < PIXELS; ++i) imageStore(target, corner + ivec2(pixel_of(i)), pixels[i]);
}
