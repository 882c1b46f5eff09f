// <reduce>: no reduction; every fragment adds its nine moments (the baseline).
#include "contract/splats.glsl"
#include "reduce/add.glsl"

void reduce_gradients(uint splat, bool contributes, float m[GRADIENTS]) {
    if (contributes) add_gradients(splat, m);
}
