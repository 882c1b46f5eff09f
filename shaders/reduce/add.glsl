// Adds one lane's moments to its splat's.
#include "contract/splats.glsl"
void add_gradients(uint splat, float m[GRADIENTS]) {
    for (uint i = 0u; i < GRADIENTS; ++i) add_gradient(GRADIENT_STRIDE * splat + i, m[i]);
}
