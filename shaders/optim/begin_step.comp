// What a training step depends on, from its number: camera, background, SH degree, learning rates,
// Adam's bias corrections.
#include "common.glsl"
#include "contract/train.glsl"
#include "powers.glsl"
#include "random.glsl"

layout(local_size_x = 64) in;  // one thread a plane
BUFFER_step_settings(readonly)
BUFFER_schedule(readonly)
BUFFER_views(readonly)
BUFFER_rate_plans(readonly)
BUFFER_camera(writeonly)
BUFFER_frame(restrict)
BUFFER_rates(writeonly)
#include <moved>
#ifndef FILLED_moved
void list_moved(bool moves) {}  // fits have no planes of splats
#endif

const uint WHITE = 1u, RANDOM = 2u;

vec3 background(uint step) {
    if (step_settings.background_mode == RANDOM)
        return random_uniform(uvec4(step_settings.seed, step, 0u, DRAW_BACKGROUND)).xyz;
    return vec3(step_settings.background_mode == WHITE ? 1.0 : 0.0);
}

float rate_of(RatePlan plan, uint step, uint sh_degree) {
    if (step % max(plan.every, 1u) != 0u || sh_degree < plan.sh_degree) return 0.0;
    if (plan.ends != 0u && step >= plan.ends) return 0.0;
    float t = min(float(max(step, plan.since) - plan.since) /
                      float(max(plan.until, plan.since + 1u) - plan.since),
                  1.0);
    float rate =
        plan.first == plan.last ? plan.first : exp(mix(log(plan.first), log(plan.last), t));
    return step < plan.warm_up ? rate * float(step + 1u) / float(plan.warm_up) : rate;
}

void main() {
    uint step = frame.step,
         sh_degree = min(step / step_settings.sh_degree_interval, step_settings.max_sh_degree),
         t = gl_LocalInvocationID.x;
    float rate = t < rate_plans.length() ? rate_of(rate_plans[t], step, sh_degree) : 0.0;
    if (t < rate_plans.length()) rates[t] = rate;
    list_moved(t < step_settings.splat_planes && rate != 0.0);
    if (t > 0u) return;
    uvec2 scheduled = schedule[step % HISTORY];
    Camera view = views[scheduled.x];
    view.photo = step_settings.fetched == 1u ? 0u : scheduled.y;
    camera = view;
    frame.background = background(step);
    frame.near_plane = step_settings.near_plane;
    frame.seed = step_settings.seed;
    frame.sh_degree = sh_degree;
    frame.view = scheduled.x;
    frame.camera = view.number;
    frame.bias1 = one_minus_power(1.0 - step_settings.beta1, step + 1u);
    frame.bias2 = one_minus_power(1.0 - step_settings.beta2, step + 1u);
}
