// Before fragments are listed: empty lists, and how much is seen of each block of pixels in front
// of each depth segment.
#include "contract/draw.glsl"
#include "contract/fragments.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
BUFFER_counts(restrict)
BUFFER_frame(readonly)
BUFFER_fragment_lists(writeonly)
SAMPLED_layers
#include "draw/layers.glsl"
#include "draw/lists/block.glsl"

void main() {
    uvec2 block = gl_GlobalInvocationID.xy;
    if (block.x >= BLOCKS_X || block.y >= BLOCKS_Y) return;
    if (block == uvec2(0u)) {
        counts.pairs_wanted = 0u;
        counts.pairs_wanted_high = 0u;
    }
    ivec2 size = textureSize(layers, 0) / ivec2(1, SEGMENTS), at[PIXELS];
    float T[PIXELS];
    for (uint i = 0u; i < PIXELS; ++i) {
        at[i] = ivec2(block * uvec2(BLOCK_W, BLOCK_H) + pixel_of(i));
        T[i] = all(lessThan(at[i], size)) ? 1.0 : 0.0;
    }
    for (uint segment = 0u; segment < SEGMENTS; ++segment) {
        float most = 0.0;
        for (uint i = 0u; i < PIXELS; ++i) {
            most = max(most, T[i]);
            if (segment + 1u < SEGMENTS) T[i] *= layer(at[i], segment).a;
        }
        fragment_lists[place_of(block, segment)] = FragmentList(NO_FRAGMENT, most);
    }
}
