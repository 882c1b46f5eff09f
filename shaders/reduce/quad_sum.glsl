// Sums a quad's gradients; its lowest contributing lane adds them. `contributing` is the subgroup's ballot.
void reduce_quad(uint splat, bool contributes, uvec4 contributing, float grad[9]) {
    uint lane = gl_SubgroupInvocationID;
    uint lanes = contributing[lane >> 5u] >> (lane & 28u) & 15u;
    for (uint i = 0u; i < 9u; ++i) grad[i] = quad_sum(grad[i], lanes);
    if (contributes && (lane & 3u) == uint(findLSB(lanes)))
        for (uint i = 0u; i < 9u; ++i) add_gradient(9u * splat + i, grad[i]);
}
