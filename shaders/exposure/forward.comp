// The image as its photograph was exposed, for the loss. Floor: read target 8..16 B, write as much a pixel.
#include "contract/exposure.glsl"
#include "contract/trained.glsl"
layout(local_size_x = GROUP) in;
BUFFER_camera(readonly)
BUFFER_frame(readonly)
SAMPLED_target
STORE_exposed
#include <exposure>

shared Exposure found;  // once for a workgroup

void main() {
    if (gl_LocalInvocationID.x == 0u) found = exposure_of();
    barrier();
    Exposure e = found;
    uint width = camera.size.x, pixels = width * camera.size.y;
    for (uint i = gl_GlobalInvocationID.x; i < pixels; i += gl_NumWorkGroups.x * GROUP) {
        ivec2 at = ivec2(i % width, i / width);
        vec4 pixel = texelFetch(target, at, 0);
        vec2 place = (vec2(at) + 0.5 - 0.5 * vec2(camera.size)) / float(max(camera.size.x, camera.size.y));
        imageStore(exposed, at, vec4(exposed_of(e, pixel.rgb + pixel.a * frame.background, place), 0.0));
    }
}
