// A triangle of the interface within the frame of its command, filled with colour times texture.
#include "contract/view.glsl"
layout(location = 0) in vec2 v_uv;
layout(location = 1) in vec4 v_color;
layout(location = 2) flat in uint v_command;
layout(location = 0) out vec4 color;
BUFFER_window_shown(readonly)
BUFFER_gui_commands(readonly)
SAMPLED_gui_font
SAMPLED_gui_scene
SAMPLED_gui_photo
SAMPLED_gui_thumbs

// Between the four texels around uv of the first `size` px; at the centre of one, that one.
#define BILINEAR(image, size)                                                                  \
    vec2 at = v_uv * vec2(size) - 0.5, share = fract(at);                                      \
    ivec2 last = ivec2(size) - 1, low = clamp(ivec2(floor(at)), ivec2(0), last),               \
          high = clamp(ivec2(floor(at)) + 1, ivec2(0), last);                                  \
    return mix(mix(texelFetch(image, low, 0), texelFetch(image, ivec2(high.x, low.y), 0),      \
                   share.x),                                                                   \
               mix(texelFetch(image, ivec2(low.x, high.y), 0), texelFetch(image, high, 0),     \
                   share.x),                                                                   \
               share.y);

vec4 font() { BILINEAR(gui_font, textureSize(gui_font, 0)) }
vec4 scene() { BILINEAR(gui_scene, window_shown.scene) }
vec4 photo() { BILINEAR(gui_photo, textureSize(gui_photo, 0)) }
vec4 thumb() { BILINEAR(gui_thumbs, textureSize(gui_thumbs, 0)) }

// The photograph lies over the scene, which is looked up where this pixel is.
vec4 error() {
    ivec2 p = ivec2(gl_FragCoord.xy) - ivec2(window_shown.scene_at);
    p = clamp(p / int(window_shown.scene_scale), ivec2(0), ivec2(window_shown.scene) - 1);
    vec3 apart = abs(texelFetch(gui_scene, p, 0).rgb - photo().rgb);
    return vec4(window_shown.louder * apart, 1.0);
}

void main() {
    vec4 clip = gui_commands[v_command].clip;
    if (any(lessThan(gl_FragCoord.xy, clip.xy)) || any(greaterThan(gl_FragCoord.xy, clip.zw)))
        discard;
    uint filling = gui_commands[v_command].filling;
    if (filling == TEXTURE_SCENE) color = v_color * scene();
    else if (filling == TEXTURE_PHOTO) color = v_color * photo();
    else if (filling == TEXTURE_THUMBS) color = v_color * thumb();
    else if (filling == TEXTURE_ERROR) color = v_color * error();
    else color = v_color * font();
}
