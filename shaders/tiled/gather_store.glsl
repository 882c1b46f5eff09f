// <store> of tiled/gather.comp: the sums are all that a splat gets.
BUFFER_d_splats2d(writeonly)
void store(uint splat) {
    for (uint i = 0u; i < GRADIENTS; ++i) d_splats2d[GRADIENT_STRIDE * splat + i] = sum[i];
}
