// <adder>: the first of the lanes that hold a sum adds all of it.
#include "contract/splats.glsl"
#include "reduce/add.glsl"

// Called by the lanes that hold `sum`, of one splat; `rank` of `count`: which of them this is.
void add_sum(uint splat, uint rank, uint count, float sum[GRADIENTS]) {
    if (rank == 0u) add_gradients(splat, sum);
}
