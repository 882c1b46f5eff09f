// <atomics>: no float is added. A pair has a record for every subgroup of its tile, which that
// subgroup alone writes; whose are written is a mask.
#include "contract/tiles.glsl"
BUFFER_pair_records(writeonly)
BUFFER_pair_subgroups(restrict)

const uint SUBGROUPS = TILE * TILE / (LANES * PER_LANE);

void add_gradient(uint index, float value) {
    uint pair = index / GRADIENT_STRIDE, i = index % GRADIENT_STRIDE,
         subgroup = pixel_index(0u) / (LANES * PER_LANE);
    pair_records[(pair * SUBGROUPS + subgroup) * GRADIENTS + i] = value;
    // Bits: any order gives the same.
    if (i == 0u) atomicOr(pair_subgroups[pair], 1u << subgroup);
}
