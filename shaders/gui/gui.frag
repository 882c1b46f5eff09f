// A triangle of the interface within the frame of its command, filled with colour times texture.
// Photographs have a draw of their own: a CPU runs both sides of every branch.
#include "contract/view.glsl"
layout(constant_id = 24) const bool PICTURES = false;
layout(location = 0) in vec2 v_uv;
layout(location = 1) in vec4 v_color;
layout(location = 2) flat in uint v_command;
layout(location = 0) out vec4 color;
BUFFER_window_shown(readonly)
BUFFER_gui_commands(readonly)
SAMPLED_gui_atlas
SAMPLED_gui_scene
SAMPLED_gui_photo

// Between the four texels around uv; at the centre of one, that one.
#define BILINEAR(image)                                                                        \
    ivec2 last = textureSize(image, 0) - 1;                                                    \
    vec2 at = v_uv * vec2(last + 1) - 0.5, share = fract(at);                                  \
    ivec2 low = clamp(ivec2(floor(at)), ivec2(0), last),                                       \
          high = clamp(ivec2(floor(at)) + 1, ivec2(0), last);                                  \
    return mix(mix(texelFetch(image, low, 0), texelFetch(image, ivec2(high.x, low.y), 0),      \
                   share.x),                                                                   \
               mix(texelFetch(image, ivec2(low.x, high.y), 0), texelFetch(image, high, 0),     \
                   share.x),                                                                   \
               share.y);

vec4 atlas() { BILINEAR(gui_atlas) }
vec4 photo() { BILINEAR(gui_photo) }

// The photograph lies over the scene, which is looked up where this pixel is.
vec4 picture(uint filling) {
    vec4 there = photo();
    if (filling != FILLED_ERROR) return there;
    ivec2 p = ivec2(gl_FragCoord.xy) / int(window_shown.scene_scale);
    p = clamp(p, ivec2(0), ivec2(window_shown.scene) - 1);
    vec3 apart = abs(texelFetch(gui_scene, p, 0).rgb - there.rgb);
    return vec4(window_shown.louder * apart, 1.0);
}

void main() {
    vec4 clip = gui_commands[v_command].clip;
    if (any(lessThan(gl_FragCoord.xy, clip.xy)) || any(greaterThan(gl_FragCoord.xy, clip.zw)))
        discard;
    color = v_color * (PICTURES ? picture(gui_commands[v_command].filling) : atlas());
}
