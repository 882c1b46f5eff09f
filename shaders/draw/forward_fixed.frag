// Forward draw for fixed-function blending, back to front: colour SRC_ALPHA / ONE_MINUS_SRC_ALPHA,
// alpha ZERO / ONE_MINUS_SRC_ALPHA, so that alpha ends as the transmittance T (Yuan & He 2025).
#define VARYING in
#include "contract/core.glsl"
#include "draw/varyings.glsl"
#include "gaussian2d.glsl"
#include "picture/pictures.glsl"

layout(location = 0) out vec4 color_alpha;

layout(constant_id = 3) const uint CANVAS_HEIGHT = 1u;
#include "draw/segments.glsl"

void main() {
    vec2 at = gl_FragCoord.xy - vec2(0, v_top);
    vec2 d = v_mean - at;
    float alpha = alpha_of(v_opacity * gaussian(d, v_conic), d, v_conic);
    if (alpha < ALPHA_MIN || elsewhere(at.y, float(CANVAS_HEIGHT))) discard;
    color_alpha = vec4(color_at(v_color, d), alpha);
}
