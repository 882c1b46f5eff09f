// <atomics> on trial: adds nothing.
#include "contract/splats.glsl"
#extension GL_EXT_shader_atomic_float : require
BUFFER_d_splats2d(restrict)

void add_gradient(uint index, float value) { if (value == 1e30) atomicAdd(d_splats2d[index], value); }
