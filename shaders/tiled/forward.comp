// Forward: blends the splats of a tile front to back; a finished pixel takes no more splats.
#include "contract/image.glsl"
#include <walk>
#include "tiled/packed.glsl"
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

void blend(uint j, float alpha, vec3 color) {
    if (alpha >= ALPHA_MIN && state[j].a >= T_MIN) state[j] = vec4(state[j].rgb + state[j].a * alpha * color, state[j].a * (1.0 - alpha));
}

float alpha_at(uint i, uint j) {
    vec4 m = mean_conic_of(i);
    vec2 d = m.xy - centre - vec2(step_to(j));
    vec3 conic = vec3(m.zw, conic_color_of(i).x);
    return alpha_of(unclamped_alpha(peak_of(i), d, conic), d, plain_conic(conic));
}

void visit(uint i) {
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) blend(j, alpha_at(i, j), conic_color_of(i).yzw);
}

void visit_two(uint i, uint k) {
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) {
        float nearer = alpha_at(i, j), farther = alpha_at(k, j);
        blend(j, nearer, conic_color_of(i).yzw);
        blend(j, farther, conic_color_of(k).yzw);
    }
}

void visit_four(uvec4 i, uint count) {
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) {
        vec4 alphas = vec4(alpha_at(i.x, j), alpha_at(i.y, j), alpha_at(i.z, j), alpha_at(i.w, j));
        blend(j, alphas.x, conic_color_of(i.x).yzw);
        blend(j, alphas.y, conic_color_of(i.y).yzw);
        blend(j, alphas.z, conic_color_of(i.z).yzw);
        if (count > 3u) blend(j, alphas.w, conic_color_of(i.w).yzw);
    }
}

void visit_eight(uvec4 i, uvec4 k, uint count) {
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) {
        vec4 alphas = vec4(alpha_at(i.x, j), alpha_at(i.y, j), alpha_at(i.z, j), alpha_at(i.w, j)), more = vec4(alpha_at(k.x, j), alpha_at(k.y, j), alpha_at(k.z, j), alpha_at(k.w, j));
        blend(j, alphas.x, conic_color_of(i.x).yzw);
        blend(j, alphas.y, conic_color_of(i.y).yzw);
        blend(j, alphas.z, conic_color_of(i.z).yzw);
        blend(j, alphas.w, conic_color_of(i.w).yzw);
        blend(j, more.x, conic_color_of(k.x).yzw);
        if (count > 5u) blend(j, more.y, conic_color_of(k.y).yzw);
        if (count > 6u) blend(j, more.z, conic_color_of(k.z).yzw);
        if (count > 7u) blend(j, more.w, conic_color_of(k.w).yzw);
    }
}

void main() {
    if (!take_share()) return;
    ivec2 size = imageSize(target), first = ivec2(first_pixel());
    centre = vec2(first) + 0.5;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) state[j] = vec4(0.0, 0.0, 0.0, all(lessThan(first + ivec2(step_to(j)), size)) ? 1.0 : 0.0);
    begin_buckets();
    walk();
    end_buckets();
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) imageStore(target, first + ivec2(step_to(j)), state[j]);  // stores outside the image are dropped
}
