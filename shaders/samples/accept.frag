// A splat as an opaque surface in the samples that accept it; of those, the depth test keeps the nearest.
#define VARYING in
#include "contract/core.glsl"
#include "draw/varyings.glsl"
#include "gaussian2d.glsl"
BUFFER_frame(readonly)
#include "samples/accepted.glsl"
#include <taken>

layout(location = 0) out uint number;

void main() {
    uvec2 block = uvec2(gl_FragCoord.xy);
    vec2 d = v_mean - vec2(block * uvec2(BLOCK_W, BLOCK_H)) - 0.5;
    float alphas[PIXELS];
    bool covers = false;
    for (uint i = 0u; i < PIXELS; ++i) {
        float alpha = min(v_opacity * gaussian(d - vec2(pixel_of(i)), v_conic), ALPHA_MAX);
        alphas[i] = alpha < ALPHA_MIN ? 0.0 : alpha;
        covers = covers || alpha >= ALPHA_MIN;
    }
    if (!covers) discard;
    uint samples = taken(accepting_samples(alphas, v_splat, block));
    if (samples == 0u) discard;
    gl_SampleMask[0] = int(samples);
    number = v_splat + 1u;
}
