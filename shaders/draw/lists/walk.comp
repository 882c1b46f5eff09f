// Gradients from listed fragments. A thread has a block of pixels of a depth segment and goes
// through its fragments, nearest first; four neighbouring threads have four neighbouring blocks. D
// and T are those of draw/ordered/backward_blocks.frag, D times norm_of(dL/dpixel); they begin with
// what is known at the border of the segment, 0 and 1 for the first, and stay in registers.
#include "contract/draw.glsl"
#include "contract/fragments.glsl"
#include "contract/image.glsl"
#include "contract/tiles.glsl"
#include "tiled/packed.glsl"
#include "moments.glsl"
#include <state>
#include <atomics>
#include <reduce>
#include <turn>
#ifndef FILLED_turn
uint next_rank(uint own) { return own; }  // each lane goes through its own list
#endif
layout(local_size_x = 8, local_size_y = 8) in;
layout(constant_id = 8) const uint SEGMENTS = 1u;
// Blocks in a column of the canvas of one depth segment.
layout(constant_id = 12) const uint BLOCKS_Y = 1u;
SAMPLED_d_image
BUFFER_tile_splats(readonly)
BUFFER_tile_reaches(readonly)
BUFFER_blocks(readonly)
BUFFER_fragment_lists(readonly)
BUFFER_fragments(readonly)
#include "draw/block.glsl"
#include "tiled/morton.glsl"
#include "draw/lists/ahead.glsl"

void main() {
    uvec2 at = gl_WorkGroupID.xy * gl_WorkGroupSize.xy + morton(gl_LocalInvocationIndex);
    bool inside = at.x < BLOCKS_X && at.y < BLOCKS_Y * SEGMENTS;
    ivec2 corner = ivec2(at.x, at.y % BLOCKS_Y) * ivec2(BLOCK_W, BLOCK_H),
          size = textureSize(d_image, 0);
    uint node = inside ? fragment_lists[at.y * BLOCKS_X + at.x].first : NO_FRAGMENT;
    bool empty = node == NO_FRAGMENT;

    vec4 loss[PIXELS];  // dL/dpixel; a: its product with the finished pixel
    float T[PIXELS], D[PIXELS];
    for (uint i = 0u; i < PIXELS; ++i) {
        ivec2 pixel = corner + ivec2(pixel_of(i));
        bool seen = !empty && all(lessThan(pixel, size));
        loss[i] = seen ? texelFetch(d_image, pixel, 0) : vec4(0.0);
        vec2 start = vec2(0.0, seen ? 1.0 : 0.0);
        if (seen && at.y >= BLOCKS_Y)
            start = unpack_pixels(blocks[first_vector(at - uvec2(0u, BLOCKS_Y)) +
                                         i / PER_VECTOR])[i % PER_VECTOR] /
                    STATE_SCALE;
        D[i] = start.x * norm_of(loss[i]);
        T[i] = start.y;
    }

    begin_list(node);
    for (;;) {
        uint rank = next_rank(rank_here);
        if (rank == NO_FRAGMENT) break;
        bool mine = rank_here == rank, contributes = false;
        uint splat = mine ? here.splat : tile_reaches[rank].splat;
        Moments moments = NO_MOMENTS;
        if (mine) {
            look_ahead();
            vec2 d = here.mean_conic.xy - vec2(corner) - 0.5;
            vec3 conic = vec3(here.mean_conic.zw, here.conic_color.x);
            bool open = false;
            for (uint i = 0u; i < PIXELS; ++i) {
                vec2 from = d - vec2(pixel_of(i));
                float unclamped = unclamped_alpha(here.peak, from, conic),
                      alpha = min(unclamped, ALPHA_MAX);
                if (unclamped < ALPHA_MIN || T[i] < T_MIN) continue;
                contributes = true;
                float along = dot(loss[i].rgb, here.conic_color.yzw) - loss[i].a;
                add(moments, moments_of(unclamped * (along * T[i] - D[i]) / (1.0 - alpha), from,
                                        plain_conic(conic), loss[i].rgb * (alpha * T[i])));
                D[i] -= T[i] * alpha * along;
                T[i] *= 1.0 - alpha;
            }
            for (uint i = 0u; i < PIXELS; ++i) open = open || T[i] >= T_MIN;
            go_on();
            if (!open) rank_here = NO_FRAGMENT;
        }
        reduce_gradients(splat, contributes, numbers_of(moments));
    }
}
