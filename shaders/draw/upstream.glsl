// What the pixels of a block get from the loss: those of a block lie together, in vectors. The includer has PIXELS, the slot <upstream> and BUFFER_upstream.
const uint UPSTREAM_VECTORS = (PIXELS * UPSTREAM_WORDS + 3u) / 4u;
Upstream loss[PIXELS];

void load_upstream(uint block) {
    uint words[4u * UPSTREAM_VECTORS];
    for (uint v = 0u; v < UPSTREAM_VECTORS; ++v) {
        uvec4 four = upstream[block * UPSTREAM_VECTORS + v];
        for (uint j = 0u; j < 4u; ++j) words[4u * v + j] = four[j];
    }
    for (uint i = 0u; i < PIXELS; ++i) {
        uint own[UPSTREAM_WORDS];
        for (uint j = 0u; j < UPSTREAM_WORDS; ++j) own[j] = words[i * UPSTREAM_WORDS + j];
        loss[i] = unpack_upstream(own);
    }
}
