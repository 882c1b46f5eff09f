// <reduce> on trial: sums nothing.
void reduce_gradients(uint splat, bool contributes, float grad[GRADIENTS]) {
    float sum = 0.0;
    for (uint i = 0u; i < GRADIENTS; ++i) sum += grad[i];
    if (sum == 1e30) add_gradient(GRADIENT_STRIDE * splat, sum);
}
