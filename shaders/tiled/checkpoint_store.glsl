// <checkpoint>: every pixel's state in front of every bucket that its subgroup visits, how many
// those are, and which buckets any subgroup visits.
#include "contract/tiles.glsl"
#include "tiled/buckets.glsl"
BUFFER_checkpoints(writeonly)
BUFFER_reaches(writeonly)
BUFFER_bucket_tiles(writeonly)

uint reached = 0u;
shared uint farthest;  // of what the subgroups reached

void begin_buckets() {
    if (gl_LocalInvocationIndex == 0u) farthest = 0u;
    barrier();
}

void before_chunk(uint i) {
    if (i % BUCKET != 0u) return;
    uint bucket = first_bucket(tile) + i / BUCKET;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j)
        checkpoints[bucket * TILE_PIXELS + pixel_index(j)] = state[j];
    reached = i / BUCKET + 1u;
}

void end_buckets() {
    if (subgroupElect()) {
        reaches[(tile * TILE_PIXELS + pixel_index(0u)) / (LANES * PER_LANE)] = reached;
        atomicMax(farthest, reached);
    }
    barrier();
    uint first = first_bucket(tile), behind = first_bucket(tile + 1u);
    for (uint bucket = first + gl_LocalInvocationIndex; bucket < behind;
         bucket += gl_WorkGroupSize.x)
        bucket_tiles[bucket] = bucket - first < farthest ? tile : NO_TILE;
}
