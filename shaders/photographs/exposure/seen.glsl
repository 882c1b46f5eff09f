// <seen> of the loss: the image is compared as its photograph was exposed.
#include "contract/exposure.glsl"
#include "contract/trained.glsl"
#include <exposure>
#include "photographs/exposure/sum_pairs.glsl"
const uint SEEN_PAIRS = SUM_PAIRS;

shared Exposure found;  // once for a workgroup

// Every thread must call it, before seen().
void begin_seen() {
    if (gl_LocalInvocationIndex == 0u) found = exposure_of();
    barrier();
}

// From the middle of the image, in units of its longer side.
vec2 place_of(ivec2 at) {
    return (vec2(at) + 0.5 - 0.5 * vec2(camera.size)) / float(max(camera.size.x, camera.size.y));
}

vec3 seen(ivec2 at) { return exposed_of(found, rendered(at), place_of(at)); }
