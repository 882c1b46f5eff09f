// What a training step depends on, from its number: camera, background, SH degree, learning rate of the means, Adam's bias corrections.
#include "common.glsl"
#include "powers.glsl"
#include "random.glsl"

layout(local_size_x = 1) in;
BUFFER_hyper(readonly)
BUFFER_schedule(readonly)
BUFFER_views(readonly)
BUFFER_camera(writeonly)
BUFFER_frame(restrict)

const uint WHITE = 1u, RANDOM = 2u;

vec3 background(uint step) {
    if (hyper.background_mode == RANDOM) return random_uniform(uvec4(hyper.seed, step, 0u, DRAW_BACKGROUND)).xyz;
    return vec3(hyper.background_mode == WHITE ? 1.0 : 0.0);
}

// Log-linear from first to last over max_steps (expon_lr_func of Kerbl et al. 2023, without delay).
float lr_means(uint step) {
    float t = min(float(step) / float(max(hyper.max_steps, 1u)), 1.0);
    return exp(mix(log(hyper.lr_means), log(hyper.lr_means_final), t));
}

void main() {
    uint step = frame.step;
    uvec2 scheduled = schedule[step % HISTORY];
    Camera view = views[scheduled.x];
    view.photo = scheduled.y;
    camera = view;
    frame.background = background(step);
    frame.near_plane = hyper.near_plane;
    frame.seed = hyper.seed;
    frame.sh_degree = min(step / hyper.sh_degree_interval, hyper.max_sh_degree);
    frame.sh_rests = uint(step % max(hyper.shN_every, 1u) != 0u);
    frame.lr_means = lr_means(step);
    frame.bias1 = one_minus_power(1.0 - hyper.beta1, step + 1u);
    frame.bias2 = one_minus_power(1.0 - hyper.beta2, step + 1u);
}
