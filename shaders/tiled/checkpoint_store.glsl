// <checkpoint>: every pixel's state in front of every bucket that its subgroup visits, how many
// those are, and which buckets any subgroup visits.
#include "contract/tiles.glsl"
#include "tiled/buckets.glsl"
BUFFER_counts(restrict)
BUFFER_checkpoints(writeonly)
BUFFER_reaches(writeonly)
BUFFER_bucket_tiles(writeonly)

uint reached = 0u;
shared uint farthest;     // of what the subgroups reached
shared uint first_place;  // of the checkpoint of the tile's bucket 0, were it one of this batch

void begin_buckets() {
    if (gl_LocalInvocationIndex == 0u) farthest = 0u;
    barrier();
}

uint place_of(uint bucket) {
    uint place = first_place + bucket;
    return place < checkpoints.length() / TILE_PIXELS ? place : NO_PLACE;
}

// Takes places for the buckets that begin in a batch.
void before_batch(uint i) {
    if (gl_LocalInvocationIndex > 0u) return;
    uint bucket = (i + BUCKET - 1u) / BUCKET,
         behind = (min(i + BATCH, end - begin) + BUCKET - 1u) / BUCKET;
    if (ON_DEMAND) bucket = max(bucket, 1u);  // in front of the first there is nothing
    if (bucket >= behind) return;
    uint tiles_first = first_bucket(tile);
    first_place =
        ON_DEMAND ? atomicAdd(counts.checkpoints, behind - bucket) - bucket : tiles_first;
    for (; bucket < behind; ++bucket) bucket_tiles[tiles_first + bucket].y = place_of(bucket);
}

void before_chunk(uint i) {
    if (i % BUCKET != 0u) return;
    uint bucket = i / BUCKET;
    reached = bucket + 1u;
    if (ON_DEMAND && bucket == 0u) return;
    uint place = place_of(bucket);
    if (place == NO_PLACE) return;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j)
        checkpoints[place * TILE_PIXELS + pixel_index(j)] = state[j];
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
        bucket_tiles[bucket].x = bucket - first < farthest ? tile : NO_TILE;
}
