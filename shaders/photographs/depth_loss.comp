// d_image of weight * mean |extent W / S - known disparity|, where S = sum w z and W = sum w of a
// pixel: its expected depth is S / W (as gsplat's depth loss). Floor: read target 8..16 B and a
// disparity 2 B, write d_image 16 B a pixel.
#include "common.glsl"
#include "contract/depth.glsl"
layout(local_size_x = TILE, local_size_y = TILE) in;
BUFFER_depth_settings(readonly)
BUFFER_disparities(readonly)
BUFFER_depth_shares(readonly)
BUFFER_camera(readonly)
BUFFER_frame(readonly)
SAMPLED_target
STORE_d_image

const float FAINTEST = 0.1;  // coverage below which a pixel shows no depth

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    vec4 d = vec4(0.0);
    if (all(lessThan(uvec2(at), camera.size))) {
        uint i = camera.photo + uint(at.y) * camera.size.x + uint(at.x);
        vec2 both = unpackHalf2x16(disparities[i / 2u]);
        float known = i % 2u == 0u ? both.x : both.y;
        vec2 seen = texelFetch(target, at, 0).rg;  // S, W
        if (known > 0.0 && seen.y > FAINTEST && seen.x > 0.0) {
            float t = min(float(frame.step) / float(max(depth_settings.until, 1u)), 1.0);
            float weight = depth_settings.weight *
                           exp(t * log(depth_settings.last / depth_settings.weight)) *
                           depth_shares[frame.view];
            float slope = depth_settings.extent / seen.x;
            d.xy = weight * sign(slope * seen.y - known) * slope * vec2(-seen.y / seen.x, 1.0);
        }
    }
    imageStore(d_image, at, d);  // stores outside the canvas are dropped
}
