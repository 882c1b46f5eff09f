// <section> of a rasterizer that is done with one primitive before the next touches the same pixel,
// as one on a CPU may be (probed).
#include "contract/draw.glsl"
BUFFER_blocks(coherent)
#define SECTION_BEGIN
#define SECTION_END
