// Backward by pixel, front to back: the final colour is taken apart by subtraction, as in draw/backward.frag, so the forward pass leaves nothing
// but its image, and checkpoints where <share> starts in the middle of a tile's splats. Of the colour behind, only its product with the pixel's
// gradient is needed. Nine moments a visit go to <reduce>.
#include "contract/image.glsl"
#include <walk>
#include "gaussian2d.glsl"
#include "moments.glsl"
#include <atomics>
#include <reduce>
SAMPLED_target
SAMPLED_d_image
BUFFER_frame(readonly)

layout(constant_id = 16) const bool STRAIGHT = false;  // pixels that get nothing are not branched around: those of a lane hide one another's latencies

vec2 centre;  // of the lane's first pixel
vec3 d_pixels[PER_LANE];
float behind[PER_LANE], T[PER_LANE];  // dL/dpixel . (colour of this splat and all behind it), and T in front of it

#include <share>

void before_chunk(uint i) {}

bool finished() {
    bool all_finished = true;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) all_finished = all_finished && T[j] < T_MIN;
    return all_finished;
}

vec2 offset_of(uint i, uint j) { return mean_conic_of(i).xy - centre - vec2(step_to(j)); }
vec3 conic_at(uint i) { return vec3(mean_conic_of(i).zw, conic_color_of(i).x); }

// What splat i, which is G at pixel j, gets from it. Returns whether it contributes there.
bool take(uint i, uint j, float G, inout Moments moments) {
    float alpha = min(opacity_of(i) * G, ALPHA_MAX);
    bool contributes = alpha >= ALPHA_MIN && T[j] >= T_MIN;
    if (!STRAIGHT && !contributes) return false;
    alpha = contributes ? alpha : 0.0;
    float along = dot(d_pixels[j], conic_color_of(i).yzw), w = contributes ? G * (along * T[j] - behind[j]) / (1.0 - alpha) : 0.0;
    add(moments, moments_of(w, offset_of(i, j), conic_at(i), d_pixels[j] * (alpha * T[j])));
    behind[j] -= T[j] * alpha * along;
    T[j] *= 1.0 - alpha;
    return contributes;
}

void visit(uint i) {
    Moments moments = NO_MOMENTS;
    bool contributes = false;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) contributes = take(i, j, gaussian(offset_of(i, j), conic_at(i)), moments) || contributes;
    reduce_gradients(target_of(i), contributes, numbers_of(moments));
}

void visit_two(uint i, uint k) {
    Moments moments = NO_MOMENTS, moments_behind = NO_MOMENTS;
    bool contributes = false, contributes_behind = false;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) {
        float nearer = gaussian(offset_of(i, j), conic_at(i)), farther = gaussian(offset_of(k, j), conic_at(k));
        contributes = take(i, j, nearer, moments) || contributes;
        contributes_behind = take(k, j, farther, moments_behind) || contributes_behind;
    }
#ifdef REDUCES_TWO
    if (LANES >= 32u) {
        reduce_two(target_of(i), target_of(k), contributes || contributes_behind, numbers_of(moments), numbers_of(moments_behind));
        return;
    }
#endif
    reduce_gradients(target_of(i), contributes, numbers_of(moments));
    reduce_gradients(target_of(k), contributes_behind, numbers_of(moments_behind));
}

void visit_four(uvec4 i, uint count) {
    visit_two(i.x, i.y);
    if (count == 3u) visit(i.z); else visit_two(i.z, i.w);
}

void main() {
    if (!take_share()) return;
    ivec2 size = textureSize(target, 0), first = ivec2(first_pixel());
    centre = vec2(first) + 0.5;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) {
        ivec2 at = first + ivec2(step_to(j));
        bool inside = all(lessThan(at, size));
        vec4 front = state_in_front(j), pixel = texelFetch(target, min(at, size - 1), 0);
        d_pixels[j] = texelFetch(d_image, min(at, size - 1), 0).rgb;
        behind[j] = dot(d_pixels[j], pixel.rgb + pixel.a * frame.background - front.rgb);
        T[j] = inside ? front.a : 0.0;
    }
    walk();
}
