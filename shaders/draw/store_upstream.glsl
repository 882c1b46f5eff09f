// d = dL/dpixel and the finished pixel -> what the pixels of a block get from the loss, see draw/upstream.glsl.
const uint UPSTREAM_VECTORS = (PIXELS * UPSTREAM_WORDS + 3u) / 4u;
Upstream loss[PIXELS];

Upstream upstream_of(vec3 d, vec3 finished) {
    float norm = dot(abs(d), vec3(1.0));
    if (norm == 0.0) return Upstream(vec3(0.0), 0.0, 0.0);
    vec3 shares = rounded_upstream(d / norm);
    return Upstream(shares, dot(shares, finished), norm);
}

void store_upstream(uint block) {
    uint words[4u * UPSTREAM_VECTORS];
    for (uint j = 0u; j < 4u * UPSTREAM_VECTORS; ++j) words[j] = 0u;
    for (uint i = 0u; i < PIXELS; ++i) {
        uint own[UPSTREAM_WORDS] = pack_upstream(loss[i]);
        for (uint j = 0u; j < UPSTREAM_WORDS; ++j) words[i * UPSTREAM_WORDS + j] = own[j];
    }
    for (uint v = 0u; v < UPSTREAM_VECTORS; ++v) upstream[block * UPSTREAM_VECTORS + v] = uvec4(words[4u * v], words[4u * v + 1u], words[4u * v + 2u], words[4u * v + 3u]);
}
