// Which blocks of a depth segment are still seen, as depth: 1 where some pixel has a transmittance of at least LEAST in front of the segment, else 0, so that
// the backward draw's depth test rejects fragments before they run.
#include "contract/draw.glsl"
layout(constant_id = 4) const uint BLOCK_W = 2u;
layout(constant_id = 5) const uint BLOCK_H = 2u;
layout(constant_id = 9) const float LEAST = 1e-4;
SAMPLED_layers
#include "draw/layers.glsl"

void main() {
    uvec2 block = uvec2(gl_FragCoord.xy);
    ivec2 size = textureSize(layers, 0) / ivec2(1, SEGMENTS);
    uint rows = (uint(size.y) + BLOCK_H - 1u) / BLOCK_H, segment = block.y / rows;
    float most = 0.0;
    for (uint i = 0u; i < BLOCK_W * BLOCK_H; ++i) {
        ivec2 at = ivec2(uvec2(block.x, block.y % rows) * uvec2(BLOCK_W, BLOCK_H) + uvec2(i % BLOCK_W, i / BLOCK_W));
        float T = 1.0;
        for (uint front = 0u; front < segment; ++front) T *= layer(at, front).a;
        most = max(most, T);
    }
    gl_FragDepth = most < LEAST ? 0.0 : 1.0;
}
