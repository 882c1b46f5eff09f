// Gradients from listed fragments. A thread has a block of pixels of a depth segment and goes
// through its fragments, nearest first. D and T are those of draw/ordered/backward_blocks.frag;
// they begin with what is known at the border of the segment, 0 and 1 for the first, and stay in
// registers.
#include "contract/draw.glsl"
#include "contract/fragments.glsl"
#include "contract/image.glsl"
#include "contract/sort.glsl"
#include "gaussian2d.glsl"
#include "moments.glsl"
#include <state>
#include <atomics>
#include <reduce>
#include <turn>
#ifndef FILLED_turn
uint next_rank(uint own) { return own; }  // each lane goes through its own list
#endif
layout(local_size_x = 8, local_size_y = 8) in;
layout(constant_id = 1) const float LARGEST = 1.0;  // colour that the target can hold
layout(constant_id = 8) const uint SEGMENTS = 1u;
// Blocks in a column of the canvas of one depth segment.
layout(constant_id = 12) const uint BLOCKS_Y = 1u;
SAMPLED_d_image
BUFFER_order(readonly)
BUFFER_splats2d(readonly)
BUFFER_colors2d(readonly)
BUFFER_blocks(readonly)
BUFFER_fragment_lists(readonly)
BUFFER_fragments(readonly)
#include "draw/block.glsl"

void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    bool inside = at.x < BLOCKS_X && at.y < BLOCKS_Y * SEGMENTS;
    ivec2 corner = ivec2(at.x, at.y % BLOCKS_Y) * ivec2(BLOCK_W, BLOCK_H),
          size = textureSize(d_image, 0);
    uint node = inside ? fragment_lists[at.y * BLOCKS_X + at.x].first : NO_FRAGMENT;
    bool empty = node == NO_FRAGMENT;

    vec4 loss[PIXELS];  // dL/dpixel; a: its product with the finished pixel
    float norms[PIXELS], T[PIXELS], D[PIXELS];
    for (uint i = 0u; i < PIXELS; ++i) {
        ivec2 pixel = corner + ivec2(pixel_of(i));
        bool seen = !empty && all(lessThan(pixel, size));
        loss[i] = seen ? texelFetch(d_image, pixel, 0) : vec4(0.0);
        norms[i] = norm_of(loss[i]);
        vec2 start = vec2(0.0, seen ? 1.0 : 0.0);
        if (seen && at.y >= BLOCKS_Y)
            start = unpack_pixels(blocks[first_vector(at - uvec2(0u, BLOCKS_Y)) +
                                         i / PER_VECTOR])[i % PER_VECTOR] /
                    STATE_SCALE;
        D[i] = start.x;
        T[i] = start.y;
    }

    uint own = NO_FRAGMENT;
    if (!empty) own = fragments[node].rank;
    for (;;) {
        uint rank = next_rank(own);
        if (rank == NO_FRAGMENT) break;
        bool mine = own == rank, contributes = false;
        uint splat = order[rank];
        Moments moments = NO_MOMENTS;
        if (mine) {
            Splat2D s = splats2d[splat];
            vec4 color = min(colors2d[splat], vec4(vec3(LARGEST), 1.0));
            vec2 d = s.mean - vec2(corner) - 0.5;
            bool open = false;
            for (uint i = 0u; i < PIXELS; ++i) {
                vec2 from = d - vec2(pixel_of(i));
                float unclamped = color.a * gaussian(from, s.conic),
                      alpha = min(unclamped, ALPHA_MAX);
                if (unclamped < ALPHA_MIN || T[i] < T_MIN) continue;
                contributes = true;
                float k =
                    norms[i] > 0.0 ? (dot(loss[i].rgb, color.rgb) - loss[i].a) / norms[i] : 0.0;
                add(moments, moments_of(unclamped * norms[i] * (k * T[i] - D[i]) / (1.0 - alpha),
                                        from, s.conic, loss[i].rgb * (alpha * T[i])));
                D[i] -= T[i] * alpha * k;
                T[i] *= 1.0 - alpha;
            }
            for (uint i = 0u; i < PIXELS; ++i) open = open || T[i] >= T_MIN;
            node = fragments[node].next;
            own = NO_FRAGMENT;
            if (open && node != NO_FRAGMENT) own = fragments[node].rank;
            if (own <= rank) own = NO_FRAGMENT;  // a list in order ends
        }
        reduce_gradients(splat, contributes, numbers_of(moments));
    }
}
