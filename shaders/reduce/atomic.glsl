// <reduce>: no reduction; every fragment adds its nine gradients (the baseline).
void reduce_gradients(uint splat, bool contributes, float grad[9]) {
    if (contributes)
        for (uint i = 0u; i < 9u; ++i) add_gradient(9u * splat + i, grad[i]);
}
