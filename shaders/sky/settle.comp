// sky_sums -> the gradients of texels, and how much of them is seen; the sums are zero afterwards.
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "contract/sky.glsl"
#include "contract/trained.glsl"
layout(local_size_x = GROUP) in;
UNIFORM_planes
VALUE_sky(restrict)
GRADIENT_sky(writeonly)
BUFFER_camera(readonly)
BUFFER_sky_sums(restrict)
#include "sky/units.glsl"

const float FADES = 1e-3;  // share of what was seen that a step forgets

void main() {
    uint i = gl_GlobalInvocationID.x, texels = planes.at[PLANE_sky].items;
    if (i >= texels) return;
    vec4 sum = vec4(sky_sums[4u * i], sky_sums[4u * i + 1u], sky_sums[4u * i + 2u],
                    sky_sums[4u * i + 3u]) / units_of(camera, texels);
    [[unroll]] for (uint k = 0u; k < 4u; ++k) sky_sums[4u * i + k] = 0;
    d_sky(i) = vec4(sum.rgb / float(3u * camera.size.x * camera.size.y), 0.0);
    float seen = min(sum.a / pixels_of(camera, texels), 1.0);
    sky(i).a = max(seen, sky(i).a * (1.0 - FADES));
}
