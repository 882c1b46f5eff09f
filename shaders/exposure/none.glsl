// <seen> of the loss: the image is compared as it is rendered.
const uint SEEN_PAIRS = 0u;
void begin_seen() {}
vec3 seen(ivec2 at) { return rendered(at); }
