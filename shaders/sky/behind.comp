// The sky behind the drawn image, through its transmittance. `layers` and `target` are one image
// here, whose rows begin at FIRST_ROW.
#extension GL_EXT_control_flow_attributes : require
#include "contract/draw.glsl"
#include "contract/sky.glsl"
#include "contract/trained.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
layout(constant_id = 0) const uint FIRST_ROW = 0u;
UNIFORM_planes
VALUE_sky(readonly)
BUFFER_camera(readonly)
SAMPLED_layers
STORE_target
#include "sky/octahedral.glsl"

void main() {
    ivec2 pixel = ivec2(gl_GlobalInvocationID.xy), at = pixel + ivec2(0, FIRST_ROW);
    if (any(greaterThanEqual(gl_GlobalInvocationID.xy, camera.size))) return;
    vec4 drawn = texelFetch(layers, at, 0);
    Corners corners = corners_of(camera, pixel, side_of(planes.at[PLANE_sky].items));
    vec3 color = vec3(0.5);
    [[unroll]] for (int i = 0; i < 4; ++i)
        color += corners.weight[i] * sky(corners.texel[i]).rgb;
    imageStore(target, at, vec4(drawn.rgb + drawn.a * color, drawn.a));
}
