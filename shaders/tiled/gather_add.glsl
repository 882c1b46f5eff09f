// <store> of tiled/gather.comp: the sums come to those of another draw of the step.
BUFFER_d_splats2d(restrict)
void store(uint splat) {
    for (uint i = 0u; i < GRADIENTS; ++i) d_splats2d[GRADIENT_STRIDE * splat + i] += sum[i];
}
