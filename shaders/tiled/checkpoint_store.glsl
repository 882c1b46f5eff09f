// <checkpoint>: every pixel's state in front of every bucket that its subgroup visits, and how many those are, for a backward pass by splat.
#include "tiled/buckets.glsl"
BUFFER_checkpoints(writeonly)
BUFFER_reaches(writeonly)

uint reached = 0u;

void begin_bucket(uint bucket) {
    uint unit = (first_bucket(tile_of_group()) + bucket) * PARTS + group_index() % PARTS;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j)
        checkpoints[(unit * BATCH + gl_SubgroupID * LANES) * PER_LANE + j * LANES + gl_SubgroupInvocationID] = state[j];
    reached = bucket + 1u;
}

void end_buckets() {
    if (subgroupElect()) reaches[group_index() * gl_NumSubgroups + gl_SubgroupID] = reached;
}
