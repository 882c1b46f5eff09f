// The window: splats, the photograph next to or over them, text on a darkened ground, and in it the
// palette of numbers.
#include "contract/view.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
SAMPLED_shown
STORE_screen
BUFFER_overlay(readonly)
BUFFER_photos(readonly)
BUFFER_glyphs(readonly)
BUFFER_text(readonly)
BUFFER_palette(readonly)

const uint FIRST = 32u;  // of the characters in glyphs
const float GROUND = 0.3;
const float OUTSIDE = 0.4;
const vec3 EMPTY = vec3(0.12);

bool within(ivec2 p, uvec2 size) {
    return all(greaterThanEqual(p, ivec2(0))) && all(lessThan(p, ivec2(size)));
}

float coverage(uint code, uvec2 at) {
    uint i = ((code - FIRST) * overlay.cell.y + at.y) * overlay.cell.x + at.x;
    return float(bitfieldExtract(glyphs[i / 4u], int(i % 4u) * 8, 8)) / 255.0;
}

void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    if (any(greaterThanEqual(at, overlay.size))) return;
    vec3 color = all(lessThan(at, overlay.render))
                     ? texelFetch(shown, ivec2(at / overlay.scale), 0).rgb
                     : EMPTY;

    bool framed = overlay.frame_size.x > 0u && all(lessThan(at, overlay.render));
    if (framed && !within(ivec2(at) - ivec2(overlay.frame_at), overlay.frame_size))
        color = mix(EMPTY, color, OUTSIDE);

    ivec2 p = ivec2(at) - ivec2(overlay.photo_at);
    if (within(p, overlay.photo_size))
        color = mix(color, unpackUnorm4x8(photos[uint(p.y) * overlay.photo_size.x + uint(p.x)]).rgb,
                    overlay.photo_share);

    uvec2 cell = at / overlay.cell;
    if (all(lessThan(cell, overlay.grid))) {
        uint code = text[cell.y * overlay.grid.x + cell.x];
        if (code != 0u) color = mix(color * GROUND, vec3(1.0), coverage(code, at % overlay.cell));
    }
    uvec2 bar = at - overlay.legend_at;  // wraps around where it is before
    if (all(lessThan(bar, overlay.legend_size)))
        color = unpackUnorm4x8(palette.colors[bar.x * 256u / overlay.legend_size.x]).rgb;
    imageStore(screen, ivec2(at), vec4(color, 1.0));
}
