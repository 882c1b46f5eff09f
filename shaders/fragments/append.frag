// Lists the fragments of a draw of blocks of pixels: each goes to the head of its block's list. Those that find no room are counted alone.
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
#include "samples/block.glsl"

void main() {
    ivec2 corner = ivec2(floor(gl_FragCoord.xy - vec2(0, v_top))) * ivec2(BLOCK_W, BLOCK_H);
    vec2 d = v_mean - vec2(corner) - 0.5;
    bool covers = false;
    for (uint i = 0u; i < PIXELS; ++i) {  // a pixel outside is of another segment, or of none
        bool inside = all(lessThan(uvec2(corner + ivec2(pixel_of(i))), uvec2(WIDTH, HEIGHT)));
        covers = covers || (inside && v_opacity * gaussian(d - vec2(pixel_of(i)), v_conic) >= ALPHA_MIN);
    }
    covers = covers && gl_SampleMaskIn[0] != 0;  // not a helper lane
    uint list = place_of(uvec2(gl_FragCoord.xy), 0u);
    if (covers) covers = fragment_lists[list].seen >= LEAST;  // a fragment that the depth test rejected may look alive to its quad, but what it adds is lost
    uint place = claim(covers);
    if (covers && place < fragments.length()) {
        fragments[place] = Fragment(v_splat, atomicExchange(fragment_lists[list].first, place));
    }
}
