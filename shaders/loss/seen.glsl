// The image that the loss compares: as it is rendered, unless <seen> has another one.
#include "loss/pixel.glsl"
#include <seen>
#ifndef FILLED_seen
const uint SEEN_PAIRS = 0u;
void begin_seen() {}
vec3 seen(ivec2 at) { return rendered(at); }
#endif
