// Programmable blending starts from no colour and full transmittance.
#include "contract/draw.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
STORE_state

void main() { imageStore(state, ivec2(gl_GlobalInvocationID.xy), vec4(0.0, 0.0, 0.0, 1.0)); }
