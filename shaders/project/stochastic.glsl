// <gradient> of project/sink.comp: the estimate sign / (2 step) times what the splat's pixels lost more with the signs than against them, over all pairs.
#include "perturbation.glsl"
layout(constant_id = 18) const uint PAIRS = 1u;
BUFFER_mean_steps(readonly)
BUFFER_splat_differences(readonly)

float geometry_of(uint g, uint i) {
    float sum = 0.0, step = i < 3u ? mean_steps[g] : i < 7u ? STEP_QUATS : i < 10u ? STEP_SCALES : STEP_OPACITIES;
    for (uint pair = 0u; pair < PAIRS; ++pair) sum += splat_differences[pair * counts.stride + g] * sign_of(sign_bits(pair, g).x, i);
    return sum / (2.0 * float(PAIRS) * step);
}

vec3 plane_of(uint k, uint g) {
    vec3 sum = vec3(0.0);
    for (uint pair = 0u; pair < PAIRS; ++pair) sum += splat_differences[pair * counts.stride + g] * sh_signs(sign_bits(pair, g), k);
    return sum / (2.0 * float(PAIRS) * sh_step(k));
}
