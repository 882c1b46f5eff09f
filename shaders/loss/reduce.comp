// One workgroup adds up loss_sums, always in the same order, into the record of this step. Floor: 12 B a tile of 512 pixels.
#include "contract/loss.glsl"
layout(local_size_x = GROUP) in;
BUFFER_loss_sums(readonly)
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_history(writeonly)
#include "ssim.glsl"
#include "loss/sum.glsl"

void main() {
    uvec2 tiles = ssim_tiles(camera.size);
    vec3 sums = vec3(0.0);
    for (uint i = gl_LocalInvocationID.x; i < tiles.x * tiles.y; i += GROUP) sums += loss_sums[i];
    sums = sum_group(sums) / float(3u * camera.size.x * camera.size.y);
    if (gl_LocalInvocationID.x == 0u) history[frame.step % HISTORY] = StepRecord(sums.x, sums.y, sums.z, counts.visible, counts.splats, counts.pairs_wanted, counts.pairs_wanted_high);
}
