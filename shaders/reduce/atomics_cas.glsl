// <atomics>: compare and swap, where float atomics are missing.
#include "contract/splats.glsl"
layout(set = 0, binding = BINDING_d_splats2d, scalar) buffer d_splats2d_block {
    uint d_splats2d[];
};

void add_gradient(uint index, float value) {
    uint seen = d_splats2d[index], expected;
    do {
        expected = seen;
        seen = atomicCompSwap(d_splats2d[index], expected,
                              floatBitsToUint(uintBitsToFloat(expected) + value));
    } while (seen != expected);
}
