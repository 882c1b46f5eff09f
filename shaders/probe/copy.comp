// Moves 16-byte vectors and nothing else, neighbouring ones by neighbouring threads, several of a thread in flight.
#include "common.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 2) const uint VECTORS = 4u;  // a thread

BUFFER_quats(readonly restrict)
BUFFER_d_quats(writeonly restrict)

void main() {
    uint first = group_index() * GROUP * VECTORS + gl_LocalInvocationID.x;
    if (first >= quats.length()) return;
    vec4 v[VECTORS];
    for (uint k = 0u; k < VECTORS; ++k) v[k] = quats[first + k * GROUP];
    for (uint k = 0u; k < VECTORS; ++k) d_quats[first + k * GROUP] = v[k];
}
