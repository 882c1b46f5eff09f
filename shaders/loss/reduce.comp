// One workgroup adds up loss_sums, always in the same order, into the record of this step. Floor:
// 12 B a tile of 512 pixels.
#include "contract/loss.glsl"
layout(local_size_x = GROUP) in;
BUFFER_loss_sums(readonly)
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_history(writeonly)
#include "ssim.glsl"
#include "loss/sum.glsl"
#include "contract/term_numbers.glsl"
#include <alive>
#ifndef FILLED_alive
uint alive() { return counts.splats; }
#endif

const uint SUMS = PIXEL_TERMS + 1u;

void main() {
    uvec2 tiles = ssim_tiles(camera.size);
    uint place = frame.step % HISTORY;
    float values = float(3u * camera.size.x * camera.size.y);
    for (uint k = 0u; k < SUMS; k += 3u) {
        vec3 three = vec3(0.0);
        for (uint i = gl_LocalInvocationID.x; i < tiles.x * tiles.y; i += GROUP)
            for (uint j = 0u; j < min(3u, SUMS - k); ++j) three[j] += loss_sums[i * SUMS + k + j];
        three = sum_group(three) / values;
        if (gl_LocalInvocationID.x > 0u) continue;
        for (uint j = 0u; j < min(3u, SUMS - k); ++j) {
            if (k + j == 0u) history[place].mse = three[j];
            else history[place].terms[k + j - 1u] = three[j];
        }
    }
    if (gl_LocalInvocationID.x > 0u) return;
    // Those of parameters come with the end of the step.
    for (uint t = PIXEL_TERMS; t < MAX_TERMS; ++t) history[place].terms[t] = 0.0;
    history[place].visible = counts.visible;
    history[place].splats = alive();
    history[place].pairs = counts.pairs_wanted;
    history[place].pairs_high = counts.pairs_wanted_high;
    history[place].checkpoints = counts.checkpoints;
}
