// Forward draw for programmable blending, front to back: state = (sum T_i alpha_i c_i, T); a
// finished pixel takes no more splats.
#define VARYING in
#include "contract/core.glsl"
#include "draw/varyings.glsl"
#include "gaussian2d.glsl"
#include "picture/pictures.glsl"
#include <order>

void main() {
    vec2 d = v_mean - gl_FragCoord.xy;
    float alpha = alpha_of(v_opacity * gaussian(d, v_conic), d, v_conic);
    ORDER_BEGIN(before)
    bool counts_here = alpha >= ALPHA_MIN && before.a >= T_MIN;
    vec4 after = counts_here ? blended(before, alpha, color_at(v_color, d)) : before;
    ORDER_END(after)
}
