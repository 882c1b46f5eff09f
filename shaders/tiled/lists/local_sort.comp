// Every tile's pairs by depth, and by splat where depths are the same: a workgroup has a tile and
// sorts it in shared memory (Batcher, "Sorting Networks and Their Applications", 1968, in the form
// that always puts the lesser one first, so that a list need not be as long as a power of two). A
// list that does not fit there is sorted in memory, with what is near each other in shared memory.
#extension GL_KHR_shader_subgroup_basic : require
#include "common.glsl"
#include "contract/tiles.glsl"
#include "tiled/grid.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 1) const uint LANES = 32u;  // of a subgroup
BUFFER_tile_starts(readonly)
BUFFER_tile_order(readonly)
BUFFER_pair_keys(coherent)
BUFFER_pair_splats(writeonly)

const uint FITS = 1024u;
shared uvec2 listed[FITS];

// A thread has pairs t, t + GROUP, ... of entries. Those of a subgroup's pairs that are at most
// LANES apart are twice LANES entries side by side, which it has to itself while that distance
// shrinks, so that it waits for no others.
uint t = gl_SubgroupID * LANES + gl_SubgroupInvocationID;

void wait(uint apart, uint next) {
    if (apart > LANES || next == 0u) {
        barrier();
    } else {
        subgroupMemoryBarrierShared();
        subgroupBarrier();
    }
}

bool precedes(uvec2 a, uvec2 b) { return a.y < b.y || a.y == b.y && a.x < b.x; }

void exchange(uint low, uint high) {
    uvec2 a = listed[low], b = listed[high];
    if (!precedes(b, a)) return;
    listed[low] = b;
    listed[high] = a;
}

void exchange_far(uint low, uint high) {
    uvec2 a = pair_keys[low], b = pair_keys[high];
    if (!precedes(b, a)) return;
    pair_keys[low] = b;
    pair_keys[high] = a;
}

// Entries of pair i of a step: mirrored in runs of `size`, and `apart` from each other.
uvec2 mirrored(uint i, uint size) {
    uint half_size = size / 2u, run = i / half_size * size, at = i % half_size;
    return uvec2(run + at, run + size - 1u - at);
}
uvec2 beside(uint i, uint apart) {
    uint low = i / apart * 2u * apart + i % apart;
    return uvec2(low, low + apart);
}

// Of `count` entries in shared memory: those that are `apart` from each other, then half as far,
// and so on. last: other subgroups' entries are looked at next.
void merge(uint count, uint apart, uint pairs, bool last) {
    for (; apart > 0u; apart /= 2u) {
        for (uint i = t; i < pairs; i += GROUP) {
            uvec2 two = beside(i, apart);
            if (two.y < count) exchange(two.x, two.y);
        }
        wait(apart, last ? apart / 2u : 1u);
    }
}

void sort_listed(uint count, uint size) {
    uint pairs = size / 2u;
    for (uint run = 2u; run <= size; run *= 2u) {
        for (uint i = t; i < pairs; i += GROUP) {
            uvec2 two = mirrored(i, run);
            if (two.y < count) exchange(two.x, two.y);
        }
        bool last = run == size || run >= 2u * LANES;
        wait(run / 2u, last ? run / 4u : 1u);
        merge(count, run / 4u, pairs, last);
    }
}

void load(uint first, uint count) {
    for (uint i = t; i < count; i += GROUP) listed[i] = pair_keys[first + i];
    barrier();
}

void store(uint first, uint count) {
    for (uint i = t; i < count; i += GROUP) pair_keys[first + i] = listed[i];
    memoryBarrierBuffer();
    barrier();
}

uint power_above(uint n) { return n < 2u ? 1u : 2u << findMSB(n - 1u); }

void main() {
    if (group_index() >= TILES) return;
    uint tile = tile_order[group_index()], begin = tile_starts[tile],
         count = tile_starts[tile + 1u] - begin, size = power_above(count);
    if (count == 0u) return;
    if (count <= FITS) {
        load(begin, count);
        sort_listed(count, size);
        for (uint i = t; i < count; i += GROUP) pair_splats[begin + i] = listed[i].x;
        return;
    }
    for (uint first = 0u; first < count; first += FITS) {
        uint here = min(FITS, count - first);
        load(begin + first, here);
        sort_listed(here, power_above(here));
        store(begin + first, here);
    }
    for (uint run = 2u * FITS; run <= size; run *= 2u) {
        for (uint apart = run; apart > FITS; apart /= 2u) {
            for (uint i = t; i < size / 2u; i += GROUP) {
                uvec2 two = apart == run ? mirrored(i, run) : beside(i, apart / 2u);
                if (two.y < count) exchange_far(begin + two.x, begin + two.y);
            }
            memoryBarrierBuffer();
            barrier();
        }
        for (uint first = 0u; first < count; first += FITS) {
            uint here = min(FITS, count - first);
            load(begin + first, here);
            merge(here, FITS / 2u, FITS / 2u, true);
            store(begin + first, here);
        }
    }
    for (uint i = t; i < count; i += GROUP) pair_splats[begin + i] = pair_keys[begin + i].x;
}
