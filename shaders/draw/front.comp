// Transmittance of each pixel behind the depth segments of a stretch, BEGIN to END, from that in front of it.
#include "contract/draw.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
layout(constant_id = 0) const uint BEGIN = 0u;
layout(constant_id = 1) const uint END = 1u;
SAMPLED_layers
BUFFER_fronts(restrict)
#include "draw/layers.glsl"

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy), size = textureSize(layers, 0) / ivec2(1, SEGMENTS);
    if (any(greaterThanEqual(at, size))) return;
    uint i = uint(at.y * size.x + at.x);
    float T = 1.0;
    if (BEGIN > 0u) T = fronts[i];
    for (uint segment = BEGIN; segment < END; ++segment) T *= layer(at, segment).a;
    fronts[i] = T;
}
