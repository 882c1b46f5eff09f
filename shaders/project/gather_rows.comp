// Sums of loss_differences over the pixels of every visible splat's cover, from running sums along
// rows: two reads a row, whatever the width, and no atomics, so the same bits every time. A
// workgroup lists the visible ones of its GROUP splats; LANES threads share a splat's rows of
// pixels.
#include "common.glsl"
#include "contract/stochastic.glsl"
const uint LANES = 8u;
layout(local_size_x = GROUP) in;
layout(constant_id = 0) const uint PAIR = 0u;
BUFFER_camera(readonly)
BUFFER_counts(readonly)
BUFFER_seen(readonly)
BUFFER_splats2d_cover(readonly)
BUFFER_colors2d_cover(readonly)
BUFFER_loss_differences(readonly)
BUFFER_splat_differences(writeonly)

shared uint visible[GROUP], found;
shared float sums[GROUP];

// A (dx + k dy)^2 + c dy^2 <= cutoff around the mean: every pixel row is an interval.
float sum_of(Splat2D s, float opacity, uint lane) {
    float cutoff = 2.0 * log(opacity / ALPHA_MIN), reach = sqrt(cutoff / s.conic.z),
          last = float(camera.size.x) - 1.0, sum = 0.0;
    int top = int(max(ceil(s.mean.y - reach - 0.5), 0.0)),
        bottom = int(min(floor(s.mean.y + reach - 0.5), float(camera.size.y) - 1.0));
    for (int y = top + int(lane); y <= bottom; y += int(LANES)) {
        float dy = float(y) + 0.5 - s.mean.y,
              half_width = sqrt(max(cutoff - s.conic.z * dy * dy, 0.0) / s.conic.x),
              middle = s.mean.x - s.conic.y * dy - 0.5;
        float left = max(ceil(middle - half_width), 0.0),
              right = min(floor(middle + half_width), last);
        if (left > right) continue;
        uint row = uint(y) * camera.size.x;
        sum += loss_differences[row + uint(right)] -
               (left > 0.0 ? loss_differences[row + uint(left) - 1u] : 0.0);
    }
    return sum;
}

void main() {
    uint t = gl_LocalInvocationID.x, g = group_index() * GROUP + t;
    if (t == 0u) found = 0u;
    barrier();
    if (g < counts.splats && seen[g] != 0u) visible[atomicAdd(found, 1u)] = g;
    barrier();
    for (uint first = 0u; first < found; first += GROUP / LANES) {
        uint i = first + t / LANES;
        sums[t] = i < found
                      ? sum_of(splats2d_cover[visible[i]], colors2d_cover[visible[i]].a, t % LANES)
                      : 0.0;
        barrier();
        if (t % LANES == 0u && i < found) {
            float sum = 0.0;
            for (uint lane = 0u; lane < LANES; ++lane) sum += sums[t + lane];
            splat_differences[PAIR * counts.capacity + visible[i]] = sum;
        }
        barrier();
    }
}
