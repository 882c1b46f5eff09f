// Many workgroups add 1 to nine addresses.
#include "common.glsl"
#include <atomics>

layout(local_size_x = GROUP) in;

void main() { add_gradient(gl_GlobalInvocationID.x % 9u, 1.0); }
