// The next plane's turn; after the last the first one's.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/refine.glsl"

layout(local_size_x = 1) in;
UNIFORM_planes
BUFFER_turn(restrict)

void main() { turn[0] = (turn[0] + 1u) % (3u * planes.of_splats); }
