// The third draw of a stochastic gradient: no order, no state, one number. A fragment stands for a block of pixels and adds up their loss_differences as far
// as the splat's cover goes; <reduce> and <atomics> are those of the analytic backward draw, for one number in the place of nine.
#define VARYING in
#include "contract/stochastic.glsl"
#define GRADIENTS 1u
#define GRADIENT_STRIDE 1u
#include "draw/varyings.glsl"
#include "gaussian2d.glsl"
#include <atomics>
#include <reduce>

layout(constant_id = 4) const uint BLOCK_W = 2u;
layout(constant_id = 5) const uint BLOCK_H = 2u;
layout(constant_id = 7) const uint PAIR = 0u;
BUFFER_camera(readonly)
BUFFER_counts(readonly)
BUFFER_loss_differences(readonly)

void main() {
    uvec2 corner = uvec2(gl_FragCoord.xy) * uvec2(BLOCK_W, BLOCK_H);
    vec2 d = v_mean - vec2(corner) - 0.5;
    float sum = 0.0;
    bool covers = false;
    for (uint i = 0u; i < BLOCK_W * BLOCK_H; ++i) {
        uvec2 within = uvec2(i % BLOCK_W, i / BLOCK_W), at = corner + within;
        bool covered = v_opacity * gaussian(d - vec2(within), v_conic) >= ALPHA_MIN && all(lessThan(at, camera.size));
        if (covered) sum += loss_differences[at.y * camera.size.x + at.x];
        covers = covers || covered;
    }
    covers = covers && gl_SampleMaskIn[0] != 0;  // not a helper lane, see draw/backward.frag
    reduce_gradients(PAIR * counts.capacity + v_splat, covers, float[](covers ? sum : 0.0));
}
