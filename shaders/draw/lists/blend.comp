// The image from listed fragments: a thread blends those of a block of pixels, nearest first. A
// finished pixel takes no more.
#include "contract/fragments.glsl"
#include "contract/image.glsl"
#include "contract/tiles.glsl"
#include "tiled/packed.glsl"
#include "picture/pictures.glsl"
layout(local_size_x = 8, local_size_y = 8) in;
STORE_target
BUFFER_tile_splats(readonly)
BUFFER_tile_reaches(readonly)
BUFFER_fragment_lists(readonly)
BUFFER_fragments(readonly)
#include "draw/lists/block.glsl"
#include "draw/lists/ahead.glsl"

void main() {
    uvec2 block = gl_GlobalInvocationID.xy;
    if (block.x >= BLOCKS_X || block.y >= BLOCKS_Y) return;
    ivec2 corner = ivec2(block * uvec2(BLOCK_W, BLOCK_H));
    vec4 pixels[PIXELS];
    for (uint i = 0u; i < PIXELS; ++i) pixels[i] = vec4(0.0, 0.0, 0.0, 1.0);
    bool open = true;
    begin_list(fragment_lists[place_of(block, 0u)].first);
    while (open && rank_here != NO_FRAGMENT) {
        look_ahead();
        vec3 conic = vec3(here.mean_conic.zw, here.conic_color.x);
        open = false;
        for (uint i = 0u; i < PIXELS; ++i) {
            vec2 from = here.mean_conic.xy - vec2(corner) - vec2(pixel_of(i)) - 0.5;
            float alpha =
                alpha_of(unclamped_alpha(here.peak, from, conic), from, plain_conic(conic));
            if (alpha >= ALPHA_MIN && pixels[i].a >= T_MIN)
                pixels[i] = blended(pixels[i], alpha, color_at(here.conic_color.yzw, from));
            open = open || pixels[i].a >= T_MIN;
        }
        go_on();
    }
    // Stores outside the image are dropped.
    for (uint i = 0u; i < PIXELS; ++i) imageStore(target, corner + ivec2(pixel_of(i)), pixels[i]);
}
