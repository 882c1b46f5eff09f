// The window: splats, the photograph beside or over them, and text on a darkened ground.
#include "contract/view.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
SAMPLED_shown
STORE_screen
BUFFER_overlay(readonly)
BUFFER_photos(readonly)
BUFFER_glyphs(readonly)
BUFFER_text(readonly)

const uint FIRST = 32u;  // of the characters in glyphs
const float GROUND = 0.3;
const vec3 EMPTY = vec3(0.12);

float coverage(uint code, uvec2 at) {
    uint i = ((code - FIRST) * overlay.cell.y + at.y) * overlay.cell.x + at.x;
    return float(bitfieldExtract(glyphs[i / 4u], int(i % 4u) * 8, 8)) / 255.0;
}

void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    if (any(greaterThanEqual(at, overlay.size))) return;
    vec3 color = all(lessThan(at, overlay.render)) ? texelFetch(shown, ivec2(at / overlay.scale), 0).rgb : EMPTY;

    ivec2 p = ivec2(at) - ivec2(overlay.photo_at);
    if (all(greaterThanEqual(p, ivec2(0))) && all(lessThan(p, ivec2(overlay.photo_size))))
        color = mix(color, unpackUnorm4x8(photos[uint(p.y) * overlay.photo_size.x + uint(p.x)]).rgb, overlay.photo_share);

    uvec2 cell = at / overlay.cell;
    if (all(lessThan(cell, overlay.grid))) {
        uint code = text[cell.y * overlay.grid.x + cell.x];
        if (code != 0u) color = mix(color * GROUND, vec3(1.0), coverage(code, at % overlay.cell));
    }
    imageStore(screen, ivec2(at), vec4(color, 1.0));
}
