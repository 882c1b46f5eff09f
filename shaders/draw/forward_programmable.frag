// Forward draw for programmable blending, front to back: state = (sum T_i alpha_i c_i, T); a finished pixel takes no more splats.
#define VARYING in
#include "contract/core.glsl"
#include "draw/varyings.glsl"
#include <alpha>
#include <order>

void main() {
    float alpha = alpha_of(v_mean - gl_FragCoord.xy, v_conic, v_opacity);
    ORDER_BEGIN(before)
    bool counts_here = alpha >= ALPHA_MIN && before.a >= T_MIN;
    vec4 after = counts_here ? vec4(before.rgb + before.a * alpha * v_color, before.a * (1.0 - alpha)) : before;
    ORDER_END(after)
}
