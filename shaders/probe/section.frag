// As order.frag, on the buffer that draws of blocks use.
#include "contract/core.glsl"
#include <section>

layout(constant_id = 0) const uint SIDE = 1u;
layout(location = 0) in flat uint v_layer;

void main() {
    uint i = uint(gl_FragCoord.y) * SIDE + uint(gl_FragCoord.x);
    SECTION_BEGIN
    uvec4 before = blocks[i];
    blocks[i] = uvec4((before.x * 31u + v_layer + 1u) & 0xFFFFu, before.y + 1u, v_layer, before.w);
    SECTION_END
}
