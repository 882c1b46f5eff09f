// Which pixels of a depth segment are still seen through the segments before BEGIN, as depth: 1 where they are, else 0, so that the draw's depth test rejects fragments
// before they run.
#include "contract/draw.glsl"
layout(constant_id = 0) const uint BEGIN = 0u;
SAMPLED_layers
#include "draw/layers.glsl"

void main() {
    ivec2 at = ivec2(gl_FragCoord.xy);
    at.y %= textureSize(layers, 0).y / int(SEGMENTS);
    float T = 1.0;
    for (uint segment = 0u; segment < BEGIN; ++segment) T *= layer(at, segment).a;
    gl_FragDepth = T < T_MIN ? 0.0 : 1.0;
}
