// As atomics.comp, by the fragments of many layers.
#include "contract/core.glsl"
#include <atomics>

layout(location = 0) in flat uint v_layer;

void main() {
    uint x = uint(gl_FragCoord.x), same = v_layer % 9u;
    add_gradient(x % 9u, 1.0);
    add_gradient(9u + same, 1.0);
    if (x % 3u == 0u) add_gradient(18u + same, 1.0);
}
