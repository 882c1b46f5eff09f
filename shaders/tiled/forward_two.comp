// Forward: blends the splats of a tile front to back; a finished pixel takes no more splats.
#include "contract/image.glsl"
#include <walk>
#include <alpha>
STORE_target

vec2 centre;  // of the lane's first pixel
vec4 state[PER_LANE];  // sum T_i alpha_i c_i, and T
#include <share>
#include <checkpoint>

bool finished() {
    bool all_finished = true;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) all_finished = all_finished && state[j].a < T_MIN;
    return all_finished;
}

void visit(uint i) {
    vec4 m = mean_conic_of(i), c = conic_color_of(i);
    float opacity = opacity_of(i);
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) {
        float alpha = alpha_of(m.xy - centre - vec2(step_to(j)), vec3(m.zw, c.x), opacity);
        if (alpha >= ALPHA_MIN && state[j].a >= T_MIN)
            state[j] = vec4(state[j].rgb + state[j].a * alpha * c.yzw, state[j].a * (1.0 - alpha));
    }
}

// What does not depend on the splat before is found for both first, so that one's latency hides the other's.
void visit_two(uint i, uint k) {
    vec4 m = mean_conic_of(i), c = conic_color_of(i), m2 = mean_conic_of(k), c2 = conic_color_of(k);
    float opacity = opacity_of(i), opacity2 = opacity_of(k);
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) {
        vec2 at = centre + vec2(step_to(j));
        float alpha = alpha_of(m.xy - at, vec3(m.zw, c.x), opacity), alpha2 = alpha_of(m2.xy - at, vec3(m2.zw, c2.x), opacity2);
        alpha = alpha >= ALPHA_MIN ? alpha : 0.0;
        alpha2 = alpha2 >= ALPHA_MIN ? alpha2 : 0.0;
        float T = state[j].a, weight = T >= T_MIN ? T * alpha : 0.0, T2 = T * (T >= T_MIN ? 1.0 - alpha : 1.0), weight2 = T2 >= T_MIN ? T2 * alpha2 : 0.0;
        state[j] = vec4(state[j].rgb + weight * c.yzw + weight2 * c2.yzw, T2 * (T2 >= T_MIN ? 1.0 - alpha2 : 1.0));
    }
}

void main() {
    if (!take_share()) return;
    ivec2 size = imageSize(target), first = ivec2(first_pixel());
    centre = vec2(first) + 0.5;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) state[j] = vec4(0.0, 0.0, 0.0, all(lessThan(first + ivec2(step_to(j)), size)) ? 1.0 : 0.0);
    walk();
    end_buckets();
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) imageStore(target, first + ivec2(step_to(j)), state[j]);  // stores outside the image are dropped
}
