// <atomics>: float atomics of the device (VK_EXT_shader_atomic_float).
#include "contract/splats.glsl"
#extension GL_EXT_shader_atomic_float : require
BUFFER_d_splats2d(restrict)

void add_gradient(uint index, float value) { atomicAdd(d_splats2d[index], value); }
