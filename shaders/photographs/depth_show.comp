// Depth instead of colour: (z, 1, 0), over black, so that the next draw makes (sum w z, sum w). The
// colours are kept.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/depth.glsl"
layout(local_size_x = GROUP) in;
UNIFORM_planes
VALUE_means(readonly)
BUFFER_camera(readonly)
BUFFER_frame(restrict)
BUFFER_counts(restrict)
BUFFER_seen(readonly)
BUFFER_colors2d(restrict)
BUFFER_kept_colors(writeonly)
BUFFER_kept_frame(writeonly)

void main() {
    uint g = group_index() * GROUP + gl_LocalInvocationID.x;
    if (g == 0u) {
        kept_frame.background = frame.background;
        frame.background = vec3(0.0);
        counts.checkpoints = 0u;  // of the draw that follows
    }
    if (g >= counts.splats || seen[g] == 0u) return;
    kept_colors[g] = colors2d[g].rgb;
    colors2d[g].rgb = vec3(dot(camera.world_to_camera[2], vec4(means(g), 1.0)), 1.0, 0.0);
}
