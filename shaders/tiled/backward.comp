// Backward by pixel, front to back: the final colour is decomposed by subtraction, as in
// draw/ordered/backward.frag, so the forward pass leaves nothing but its image, and checkpoints
// where <share> starts in the middle of a tile's splats. Of the colour behind, only its product
// with the pixel's gradient is needed. Nine moments a visit go to <reduce>.
#include "contract/image.glsl"
#include <walk>
#include "tiled/packed.glsl"
#include "moments.glsl"
#include <atomics>
#include <reduce>
SAMPLED_target
SAMPLED_d_image
BUFFER_frame(readonly)

vec2 centre;  // of the lane's first pixel
vec3 d_pixels[PER_LANE];
// dL/dpixel . (colour of this splat and all behind it), and T in front of it.
float behind[PER_LANE], T[PER_LANE];

#include <share>

void before_batch(uint i) {}
void before_chunk(uint i) {}

bool finished() {
    bool all_finished = true;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) all_finished = all_finished && T[j] < T_MIN;
    return all_finished;
}

vec2 offset_of(uint i, uint j) { return mean_conic_of(i).xy - centre - vec2(step_to(j)); }
vec3 conic_at(uint i) { return vec3(mean_conic_of(i).zw, conic_color_of(i).x); }

void visit(uint i) {
    Moments moments = NO_MOMENTS;
    bool contributes = false;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) {
        vec2 d = offset_of(i, j);
        float unclamped = unclamped_alpha(peak_of(i), d, conic_at(i)),
              alpha = min(unclamped, ALPHA_MAX);
        if (alpha < ALPHA_MIN || T[j] < T_MIN) continue;
        contributes = true;
        float along = dot(d_pixels[j], conic_color_of(i).yzw),
              w = unclamped * (along * T[j] - behind[j]) / (1.0 - alpha);
        add(moments, moments_of(w, d, plain_conic(conic_at(i)), d_pixels[j] * (alpha * T[j])));
        behind[j] -= T[j] * alpha * along;
        T[j] *= 1.0 - alpha;
    }
    reduce_gradients(target_of(i), contributes, numbers_of(moments));
}

void main() {
    if (!take_share()) return;
    ivec2 size = textureSize(target, 0), first = ivec2(first_pixel());
    centre = vec2(first) + 0.5;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) {
        ivec2 at = first + ivec2(step_to(j));
        bool inside = all(lessThan(at, size));
        vec4 front = state_in_front(j), pixel = texelFetch(target, min(at, size - 1), 0);
        vec4 d = texelFetch(d_image, min(at, size - 1), 0);
        d_pixels[j] = d.rgb;
        behind[j] = dot(d.rgb, pixel.rgb + pixel.a * frame.background - front.rgb) + d.a;
        T[j] = inside ? front.a : 0.0;
    }
    walk();
}
