// The next step of a fit without splats, for the same command buffer submitted again.
#include "common.glsl"

layout(local_size_x = 1) in;
BUFFER_frame(restrict)

void main() { frame.step += 1u; }
