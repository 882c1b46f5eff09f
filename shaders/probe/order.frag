// Every layer changes the state in a way that does not commute: (hash of the layers so far, how
// many there were, the last one). Whole numbers below 2^16 are exact in float32.
#include "contract/core.glsl"
#include <order>

layout(location = 0) in flat uint v_layer;

void main() {
    ORDER_BEGIN(before)
    uint hash = (uint(before.r) * 31u + v_layer + 1u) & 0xFFFFu;
    vec4 after = vec4(float(hash), before.g + 1.0, float(v_layer), before.a);
    ORDER_END(after)
}
