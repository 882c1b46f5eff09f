// dL/d colour of the image -> sums over the pixels that see a texel, in integers, whose sum does not
// depend on its order.
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "contract/sky.glsl"
#include "contract/trained.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
UNIFORM_planes
BUFFER_camera(readonly)
BUFFER_sky_sums(restrict)
SAMPLED_target
SAMPLED_d_image
#include "sky/octahedral.glsl"
#include "sky/units.glsl"

const float MOST = 64.0;  // a gradient, over that of a mean absolute difference

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    if (any(greaterThanEqual(gl_GlobalInvocationID.xy, camera.size))) return;
    float T = texelFetch(target, at, 0).a, values = float(3u * camera.size.x * camera.size.y);
    vec4 d = vec4(clamp(values * texelFetch(d_image, at, 0).rgb, -MOST, MOST), 1.0);
    if (T < T_MIN || !finite(d)) return;
    uint texels = planes.at[PLANE_sky].items;
    Corners corners = corners_of(camera, at, side_of(texels));
    d *= T * units_of(camera, texels);
    [[unroll]] for (int i = 0; i < 4; ++i) {
        ivec4 share = ivec4(round(corners.weight[i] * d));
        [[unroll]] for (uint k = 0u; k < 4u; ++k)
            if (share[k] != 0) atomicAdd(sky_sums[4u * corners.texel[i] + k], share[k]);
    }
}
