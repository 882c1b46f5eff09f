// Forward: blends the splats of a tile front to back; a finished pixel takes no more splats.
#include "contract/image.glsl"
#include <walk>
#include "tiled/packed.glsl"
#include "picture/pictures.glsl"
STORE_target

vec2 centre;  // of the lane's first pixel
vec4 state[PER_LANE];  // sum T_i alpha_i c_i, and T
#include <share>
#include <checkpoint>
#ifndef FILLED_checkpoint
void before_batch(uint i) {}
void before_chunk(uint i) {}
void begin_buckets() {}
void end_buckets() {}
#endif

bool finished() {
    bool all_finished = true;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j)
        all_finished = all_finished && state[j].a < T_MIN;
    return all_finished;
}

void blend(uint j, float alpha, vec3 color) {
    if (alpha >= ALPHA_MIN && state[j].a >= T_MIN)
        state[j] = blended(state[j], alpha, color);
}

void visit_at(uint i, uint j) {
    vec4 m = mean_conic_of(i);
    vec2 d = m.xy - centre - vec2(step_to(j));
    vec3 conic = vec3(m.zw, conic_color_of(i).x);
    float alpha = alpha_of(unclamped_alpha(peak_of(i), d, conic), d, plain_conic(conic));
    blend(j, alpha, color_at(conic_color_of(i).yzw, d));
}

void visit(uint i) {
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) visit_at(i, j);
}

void main() {
    if (!take_share()) return;
    ivec2 size = imageSize(target), first = ivec2(first_pixel());
    centre = vec2(first) + 0.5;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j)
        state[j] = vec4(0.0, 0.0, 0.0, all(lessThan(first + ivec2(step_to(j)), size)) ? 1.0 : 0.0);
    begin_buckets();
    walk();
    end_buckets();
    // Stores outside the image are dropped.
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j)
        imageStore(target, first + ivec2(step_to(j)), state[j]);
}
