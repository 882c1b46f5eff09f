// A splat as an opaque surface in the samples that accept it; of those, each keeps the nearest.
#define VARYING in
#include "contract/draw.glsl"
#include "contract/samples.glsl"
#include "draw/varyings.glsl"
#include "gaussian2d.glsl"
layout(early_fragment_tests) in;  // so that those of finished blocks do not run
BUFFER_frame(readonly)
BUFFER_sample_ranks(coherent)
BUFFER_sample_rank_vectors(readonly)
layout(constant_id = 6) const uint BLOCKS_X = 1u;
layout(constant_id = 3) const uint CANVAS_HEIGHT = 1u;
#include "samples/accepted.glsl"

void main() {
    uvec2 place = uvec2(gl_FragCoord.xy);
    ivec2 block = ivec2(floor(gl_FragCoord.xy - vec2(0, v_top)));
    if (block.y < 0 || uint(block.y) * BLOCK_H >= CANVAS_HEIGHT || gl_SampleMaskIn[0] == 0) return;  // on another segment's canvas, or a helper lane
    vec2 d = v_mean - vec2(block * ivec2(BLOCK_W, BLOCK_H)) - 0.5;
    float alphas[PIXELS];
    bool covers = false;
    for (uint i = 0u; i < PIXELS; ++i) {
        float alpha = min(v_opacity * gaussian(d - vec2(pixel_of(i)), v_conic), ALPHA_MAX);
        alphas[i] = alpha < ALPHA_MIN ? 0.0 : alpha;
        covers = covers || alpha >= ALPHA_MIN;
    }
    if (!covers) return;
    uint home = (place.y * BLOCKS_X + place.x) * SAMPLES, accepting = accepting_samples(alphas, v_splat, uvec2(block)), farther = 0u;
    // The same memory, four at a time. What is read may be older than what others have written: then atomicMin decides.
    if (SAMPLES % 4u == 0u)
        for (uint v = 0u; v < SAMPLES / 4u; ++v) {
            uvec4 farther4 = uvec4(greaterThan(sample_rank_vectors[home / 4u + v], uvec4(v_splat))) << uvec4(0u, 1u, 2u, 3u);
            farther |= (farther4.x | farther4.y | farther4.z | farther4.w) << 4u * v;
        }
    else
        for (uint s = 0u; s < SAMPLES; ++s) farther |= uint(sample_ranks[home + s] > v_splat) << s;
    accepting &= farther;
    for (uint s = 0u; s < SAMPLES; ++s)
        if ((accepting >> s & 1u) != 0u) atomicMin(sample_ranks[home + s], v_splat);
}
