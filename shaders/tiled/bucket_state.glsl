// What the forward pass left in front of a bucket.
#include "contract/tiles.glsl"
#include "tiled/buckets.glsl"
layout(constant_id = 7) const uint GROUP_PIXELS = 32u;  // of a subgroup of the forward pass
BUFFER_checkpoints(readonly)
BUFFER_reaches(readonly)
BUFFER_bucket_tiles(readonly)

// The tile of a bucket, or NO_TILE.
uint tile_of(uint bucket) {
    return bucket < first_bucket(TILES) ? bucket_tiles[bucket].x : NO_TILE;
}

// Colour and T of pixel i of the tile; T = 0 where it was finished before the forward pass came
// here.
vec4 state_before(uint tile, uint bucket, uint i) {
    bool visited = bucket - first_bucket(tile) < reaches[(tile * TILE_PIXELS + i) / GROUP_PIXELS];
    return visited ? checkpoints[bucket_tiles[bucket].y * TILE_PIXELS + i] : vec4(0.0);
}
