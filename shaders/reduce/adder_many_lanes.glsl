// <adder>: the lanes that hold a sum share its additions, which go to consecutive addresses: nine lanes make them in one instruction.
#include "contract/splats.glsl"
#include "reduce/add.glsl"

// Called by the lanes that hold `sum`, of one splat; `rank` of `count`: which of them this is.
void add_sum(uint splat, uint rank, uint count, float sum[GRADIENTS]) {
    for (uint i = rank; i < GRADIENTS; i += count) {
        float value = sum[0];  // chosen by comparing: an index that differs between lanes would put the array in memory
        for (uint j = 1u; j < GRADIENTS; ++j) value = i == j ? sum[j] : value;
        add_gradient(GRADIENT_STRIDE * splat + i, value);
    }
}
