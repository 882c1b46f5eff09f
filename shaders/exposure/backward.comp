// dL/d exposed image, in d_image -> dL/d image in its place, and sums over pixels of the gradients of exposure. Floor: read target 8..16 B and d_image 16 B, write
// 16 B a pixel.
#extension GL_EXT_control_flow_attributes : require
#include "contract/exposure.glsl"
#include "contract/trained.glsl"
layout(local_size_x = GROUP) in;
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_exposure_sums(writeonly)
SAMPLED_target
LOADSTORE_d_image(rgba32f)
#include <exposure>
#include "exposure/sum_all.glsl"
#include "exposure/share.glsl"

shared Exposure found;

void main() {
    uint groups = sharing_groups(camera.size);
    if (gl_WorkGroupID.x >= groups) return;
    if (gl_LocalInvocationID.x == 0u) found = exposure_of();
    barrier();
    Exposure e = found;
    float sums[EXPOSURE_SUMS];
    [[unroll]] for (uint k = 0u; k < EXPOSURE_SUMS; ++k) sums[k] = 0.0;
    uint width = camera.size.x, pixels = width * camera.size.y;
    for (uint i = gl_GlobalInvocationID.x; i < pixels; i += groups * GROUP) {
        ivec2 at = ivec2(i % width, i / width);
        vec4 pixel = texelFetch(target, at, 0);
        vec3 d = imageLoad(d_image, at).rgb;
        vec2 place = (vec2(at) + 0.5 - 0.5 * vec2(camera.size)) / float(max(camera.size.x, camera.size.y));
        imageStore(d_image, at, vec4(d_exposed_of(e, pixel.rgb + pixel.a * frame.background, place, d, sums), 0.0));
    }
    sum_all(sums);
    uint t = gl_LocalInvocationID.x;
    if (t < SUMS) exposure_sums[gl_WorkGroupID.x * EXPOSURE_SUMS + t] = totals[t];
}
