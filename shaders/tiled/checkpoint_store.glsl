// <checkpoint>: every pixel's state in front of every bucket that its subgroup visits, and how many those are.
#include "contract/tiles.glsl"
#include "tiled/buckets.glsl"
BUFFER_checkpoints(writeonly)
BUFFER_reaches(writeonly)

uint reached = 0u;

void before_chunk(uint i) {
    if (i % BUCKET != 0u) return;
    uint bucket = first_bucket(tile) + i / BUCKET;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) checkpoints[bucket * TILE_PIXELS + pixel_index(j)] = state[j];
    reached = i / BUCKET + 1u;
}

void end_buckets() {
    if (subgroupElect()) reaches[(tile * TILE_PIXELS + pixel_index(0u)) / (LANES * PER_LANE)] = reached;
}
