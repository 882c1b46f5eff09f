// The fragments of many layers add 1 to nine addresses.
#include "contract/core.glsl"
#include <atomics>

layout(location = 0) in flat uint v_layer;

void main() { add_gradient(v_layer % 9u, 1.0); }
