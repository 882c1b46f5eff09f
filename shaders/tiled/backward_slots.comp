// Backward by pixel, front to back, as tiled/backward.comp, with sums that are made splat by splat: a visit leaves two numbers a pixel in shared memory, and when
// SLOTS splats wait there every lane turns to one of them and walks over a share of the subgroup's pixels. A sum over lanes then stands at the end of
// SLOTS visits, not of every one.
#include "contract/image.glsl"
#include <walk>
#include "gaussian2d.glsl"
#include "first_moments.glsl"
#include <atomics>
#extension GL_KHR_shader_subgroup_shuffle : require
SAMPLED_target
SAMPLED_d_image
BUFFER_frame(readonly)

const uint PIXELS = LANES * PER_LANE, SLOTS = LANES < 8u ? LANES : 8u, SHARES = LANES / SLOTS;  // of a subgroup; lanes that share a slot
const uint STRIDE = PIXELS + SHARES;                                                            // of slots, so that lanes read from different banks
const uint SUMS = (GRADIENTS + SHARES - 1u) / SHARES;                                           // that a lane ends with
shared vec2 waiting[BATCH / LANES * SLOTS * STRIDE];                                            // w and alpha T of a splat at a pixel
shared vec4 d_pixels[BATCH * PER_LANE];

vec2 centre;  // of the lane's first pixel
vec3 d_own[PER_LANE];
float behind[PER_LANE], T[PER_LANE];  // dL/dpixel . (colour of this splat and all behind it), and T in front of it
uint filled = 0u, own_row;             // slots of this subgroup; of the lane's slot, where its gradients go,
vec4 own_mean_conic;                   // and what moments are about
float own_c;

#include <share>

void before_chunk(uint i) {}

bool finished() {
    bool all_finished = true;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) all_finished = all_finished && T[j] < T_MIN;
    return all_finished;
}

// The splats that wait -> sums -> memory.
void flush() {
    if (filled == 0u) return;
    uint slot = gl_SubgroupInvocationID / SHARES, part = gl_SubgroupInvocationID % SHARES, base = gl_SubgroupID * PIXELS;
    uint from = (gl_SubgroupID * SLOTS + slot) * STRIDE;
    float total = 0.0;        // of w
    vec2 first = vec2(0.0);   // of w t, w dy
    vec3 second = vec3(0.0);  // of w t^2, w t dy, w dy^2
    vec3 d_color = vec3(0.0);
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    vec2 to_mean = own_mean_conic.xy - (vec2(corner_of_tile() + morton(pixel_index(0u) - gl_SubgroupInvocationID) + morton(part)) + 0.5);
    [[unroll]] for (uint k = 0u; k < PIXELS / SHARES; ++k) {
        vec2 weights = waiting[from + SHARES * k + part];
        vec3 d_pixel = d_pixels[base + SHARES * k + part].rgb;
        vec2 d = to_mean - vec2(morton(SHARES * k));
        d.x += own_mean_conic.w * d.y;
        total += weights.x;
        vec2 both = weights.x * d;
        first += first_of(weights.x, d, vec3(own_mean_conic.zw, own_c));
        second += vec3(both.x * d.x, both.x * d.y, both.y * d.y);
        d_color += weights.y * d_pixel;
    }
    float sums[16] = float[](total, first.x, first.y, second.x, second.y, second.z, d_color.r, d_color.g, d_color.b, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    uint kept = SUMS * SHARES;
    [[unroll]] for (uint bit = SHARES / 2u; bit > 0u; bit >>= 1u) {
        bool upper = (part & bit) != 0u;
        kept /= 2u;
        [[unroll]] for (uint i = 0u; i < kept; ++i) {
            float given = subgroupShuffleXor(upper ? sums[i] : sums[i + kept], bit);
            sums[i] = (upper ? sums[i + kept] : sums[i]) + given;
        }
    }
    if (slot < filled) {
        [[unroll]] for (uint i = 0u; i < SUMS; ++i)
            if (SUMS * part + i < GRADIENTS) add_gradient(GRADIENT_STRIDE * own_row + SUMS * part + i, sums[i]);
    }
    filled = 0u;
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

void visit(uint i) {
    vec4 m = mean_conic_of(i), c = conic_color_of(i);
    float opacity = opacity_of(i);
    bool contributes = false;
    uint to = (gl_SubgroupID * SLOTS + filled) * STRIDE + gl_SubgroupInvocationID;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) {
        vec2 d = m.xy - centre - vec2(step_to(j)), weights = vec2(0.0);
        float G = gaussian(d, vec3(m.zw, c.x)), alpha = min(opacity * G, ALPHA_MAX);
        if (alpha >= ALPHA_MIN && T[j] >= T_MIN) {
            contributes = true;
            float along = dot(d_own[j], c.yzw), share = alpha * T[j];
            weights = vec2(G * (along * T[j] - behind[j]) / (1.0 - alpha), share);
            behind[j] -= share * along;
            T[j] *= 1.0 - alpha;
        }
        waiting[to + j * LANES] = weights;
    }
    if (!subgroupAny(contributes)) return;
    if (gl_SubgroupInvocationID / SHARES == filled) {
        own_mean_conic = m;
        own_c = c.x;
        own_row = row_of(i);
    }
    if (++filled == SLOTS) flush();
}

void main() {
    if (!take_share()) return;
    ivec2 size = textureSize(target, 0), first = ivec2(first_pixel());
    centre = vec2(first) + 0.5;
    [[unroll]] for (uint j = 0u; j < PER_LANE; ++j) {
        ivec2 at = first + ivec2(step_to(j));
        bool inside = all(lessThan(at, size));
        vec4 front = state_in_front(j), pixel = texelFetch(target, min(at, size - 1), 0);
        d_own[j] = texelFetch(d_image, min(at, size - 1), 0).rgb;
        d_pixels[gl_SubgroupID * PIXELS + j * LANES + gl_SubgroupInvocationID] = vec4(d_own[j], 0.0);
        behind[j] = dot(d_own[j], pixel.rgb + pixel.a * frame.background - front.rgb);
        T[j] = inside ? front.a : 0.0;
    }
    walk();
    flush();
}
