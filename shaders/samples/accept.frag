// A splat as an opaque surface in the samples that accept it. The fixed depth test keeps the nearest; in the next draw, of what is behind that one, again the nearest.
#define VARYING in
#include "contract/core.glsl"
#include "draw/varyings.glsl"
#include "gaussian2d.glsl"
BUFFER_frame(readonly)
#include "samples/accepted.glsl"

layout(location = 0) out uint number;

void main() {
    float alpha = min(v_opacity * gaussian(v_mean - gl_FragCoord.xy, v_conic), ALPHA_MAX);
    if (alpha < ALPHA_MIN) discard;
    gl_SampleMask[0] = int(accepting_samples(alpha, v_splat, uvec2(gl_FragCoord.xy)));
    number = v_splat + 1u;
}
