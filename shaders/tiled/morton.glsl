// Pixel i of a tile in Morton order: aligned runs of 2^k of them are rectangles.
uvec2 morton(uint i) {
    uvec2 v = uvec2(i, i >> 1u) & 0x55u;
    v = (v | v >> 1u) & 0x33u;
    return (v | v >> 2u) & 0x0Fu;
}
