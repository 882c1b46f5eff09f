// Many workgroups add 1: to neighbouring addresses, to one address at once, and there in a branch
// that a third of the threads takes. Each way has nine addresses.
#include "common.glsl"
#include <atomics>

layout(local_size_x = GROUP) in;

void main() {
    uint i = gl_GlobalInvocationID.x, same = gl_WorkGroupID.x % 9u;
    add_gradient(i % 9u, 1.0);
    add_gradient(9u + same, 1.0);
    if (i % 3u == 0u) add_gradient(18u + same, 1.0);
}
