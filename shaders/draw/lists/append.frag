// Lists the fragments of a draw of blocks of pixels: each goes to the head of its block's list. One
// beyond the capacity is only counted.
#define VARYING in
#include "contract/fragments.glsl"
#include "draw/varyings.glsl"
#include "gaussian2d.glsl"
layout(early_fragment_tests) in;  // so that those of finished blocks do not run
layout(constant_id = 9) const float LEAST = 0.0;  // transmittance of unfinished blocks
layout(constant_id = 10) const uint WIDTH = 1u;   // of the canvas, px
layout(constant_id = 11) const uint HEIGHT = 1u;  // of that of one depth segment
BUFFER_counts(restrict)
BUFFER_fragment_lists(restrict)
BUFFER_fragments(writeonly)
#include <claim>
#ifndef FILLED_claim
// A place for a fragment.
uint claim(bool wanted) { return wanted ? atomicAdd(counts.pairs_wanted, 1u) : 0u; }
#endif
#include "draw/lists/block.glsl"

// The largest value in the rectangle of a block's pixel centres, or a little more. d: from the
// first of them to the mean; size: of the rectangle, px.
float most_in(vec2 d, vec2 size, vec3 conic) {
    vec2 low = d - size, beside = clamp(vec2(0.0), low, d);  // beside: the least along each axis
    vec2 on_column = vec2(
        beside.x,
        clamp(-conic.x * conic.y * beside.x / (conic.x * conic.y * conic.y + conic.z), low.y, d.y));
    vec2 on_row = vec2(clamp(-conic.y * beside.y, low.x, d.x), beside.y);
    return 1.001 * max(gaussian(on_column, conic), gaussian(on_row, conic));
}

void main() {
    ivec2 corner = ivec2(floor(gl_FragCoord.xy - vec2(0, v_top))) * ivec2(BLOCK_W, BLOCK_H);
    bool covers = all(lessThan(uvec2(corner), uvec2(WIDTH, HEIGHT)));  // else of another segment
    // The last of its pixels on the canvas.
    vec2 last = min(vec2(BLOCK_W, BLOCK_H), vec2(WIDTH, HEIGHT) - vec2(corner)) - 1.0;
    covers = covers && v_opacity * most_in(v_mean - vec2(corner) - 0.5, last, v_conic) >= ALPHA_MIN;
    covers = covers && gl_SampleMaskIn[0] != 0;  // not a helper lane
    uint list = place_of(uvec2(gl_FragCoord.xy), 0u);
    // A fragment that the depth test rejected may look alive to its quad, but what it adds is lost.
    if (covers && LEAST > 0.0) covers = fragment_lists[list].seen >= LEAST;
    uint place = claim(covers);
    if (covers && place < fragments.length())
        fragments[place] = Fragment(v_splat, atomicExchange(fragment_lists[list].first, place));
}
