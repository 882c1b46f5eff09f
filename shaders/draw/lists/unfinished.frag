// Which blocks of a depth segment are still seen, as depth: 1 where some pixel has a transmittance
// of at least LEAST in front of the segment, else 0, so that the depth test rejects fragments
// before they are listed.
#include "contract/fragments.glsl"
layout(constant_id = 9) const float LEAST = 1e-4;
BUFFER_fragment_lists(readonly)
#include "draw/lists/block.glsl"

void main() {
    gl_FragDepth = fragment_lists[place_of(uvec2(gl_FragCoord.xy), 0u)].seen < LEAST ? 0.0 : 1.0;
}
