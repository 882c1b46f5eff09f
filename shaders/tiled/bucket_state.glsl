// What the forward pass left in front of a bucket.
#include "contract/tiles.glsl"
#include "tiled/buckets.glsl"
layout(constant_id = 7) const uint GROUP_PIXELS = 32u;  // of a subgroup of the forward pass
BUFFER_checkpoints(readonly)
BUFFER_reaches(readonly)

// The last tile whose buckets start at or before this one.
uint tile_of(uint bucket) {
    uint low = 0u, high = TILES;
    while (high - low > 1u) {
        uint middle = (low + high) / 2u;
        if (first_bucket(middle) <= bucket) low = middle; else high = middle;
    }
    return low;
}

// Colour and T of pixel i of the tile; T = 0 where it was finished before the forward pass came here.
vec4 state_before(uint tile, uint bucket, uint i) {
    bool visited = bucket - first_bucket(tile) < reaches[(tile * TILE_PIXELS + i) / GROUP_PIXELS];
    return visited ? checkpoints[bucket * TILE_PIXELS + i] : vec4(0.0);
}
