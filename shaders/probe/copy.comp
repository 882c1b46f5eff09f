// Moves 16-byte vectors and nothing else, neighbouring ones by neighbouring threads, several of a
// thread in flight.
#include "common.glsl"
#include "contract/probe.glsl"

layout(local_size_x = GROUP) in;
layout(constant_id = 2) const uint VECTORS = 4u;  // a thread

BUFFER_source(readonly restrict)
BUFFER_copied(writeonly restrict)

void main() {
    uint first = group_index() * GROUP * VECTORS + gl_LocalInvocationID.x;
    if (first >= source.length()) return;
    vec4 v[VECTORS];
    for (uint k = 0u; k < VECTORS; ++k) v[k] = source[first + k * GROUP];
    for (uint k = 0u; k < VECTORS; ++k) copied[first + k * GROUP] = v[k];
}
