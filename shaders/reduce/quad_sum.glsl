// Sums a quad's gradients by two swaps; the lowest contributing lane adds them. Lanes that do not contribute hold zeros.
void reduce_quad(uint splat, bool contributes, float grad[9]) {
    uint lanes = contributes ? 1u << (gl_SubgroupInvocationID & 3u) : 0u;
    lanes |= subgroupQuadSwapHorizontal(lanes);
    lanes |= subgroupQuadSwapVertical(lanes);
    for (uint i = 0u; i < 9u; ++i) {
        grad[i] += subgroupQuadSwapHorizontal(grad[i]);
        grad[i] += subgroupQuadSwapVertical(grad[i]);
    }
    if (contributes && (gl_SubgroupInvocationID & 3u) == uint(findLSB(lanes)))
        for (uint i = 0u; i < 9u; ++i) add_gradient(9u * splat + i, grad[i]);
}
