// The moments that a splat's fragments added up -> gradients of its Splat2D -> of its geometry and
// colour, for optim/planes.comp. A part of the splats is visible, anywhere among the others: a
// workgroup lists those of its GROUP splats first, so that no lane idles through the long part.
// Rows rather than ranks of `order`, because neighbours share the cache lines that they read and
// write.
#include "common.glsl"
#include "contract/trained.glsl"
#include "projection.glsl"
#include <lens>
#include "gaussian2d.glsl"

layout(local_size_x = 64) in;
layout(local_size_x_id = 0) in;
const uint LANES = gl_WorkGroupSize.x;  // at most GROUP
layout(constant_id = 2) const bool ANTIALIASED = false;
layout(constant_id = 3) const float FLAT = 0.0;  // weight of thickness in the loss, per world unit

UNIFORM_planes
VALUE_means(readonly)
VALUE_quats(readonly)
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_d_splats2d(restrict)
BUFFER_seen(readonly)
BUFFER_d_colors(writeonly)
BUFFER_directions(writeonly)
// scale_of(g), opacity_of(g), d_scale_of(scale), per_log_opacity(g)
#include "project/given.glsl"
// kept_direction(g), put_gradients(g, ...)
#include <directions>
#include <stats>
#ifndef FILLED_stats
#define Stats bool
bool stats_of(uint g) { return false; }
void add_stats(uint g, bool stat, vec2 d_mean2d, float radius) {}
#endif
#include <depth>
#ifndef FILLED_depth
vec3 d_mean_of_depth(uint g) { return vec3(0.0); }
#endif

shared uint visible[GROUP], found;
#include <listing>

// Of the mean thickness, the smallest scale (Chen et al. 2024, PGSR, eq. 7). Discs are flat enough.
const float DISC = 0.01;  // smallest scale over the middle one
vec3 d_thickness(vec3 scale) {
    float least = min(min(scale.x, scale.y), scale.z), most = max(max(scale.x, scale.y), scale.z);
    float middle = scale.x + scale.y + scale.z - least - most, d = FLAT / float(counts.splats);
    if (least < DISC * middle) return vec3(0.0);
    if (scale.x == least) return vec3(d, 0.0, 0.0);
    return scale.y == least ? vec3(0.0, d, 0.0) : vec3(0.0, 0.0, d);
}

void differentiate(uint g) {
    // All that is read comes before anything is written: a compiler that cannot know that buffers
    // do not overlap keeps that order, and waits.
    float m[GRADIENTS];
    mat3 d_direction = mat3(0.0);  // of red, green and blue
    for (uint i = 0u; i < GRADIENTS; ++i) m[i] = d_splats2d[GRADIENT_STRIDE * g + i];
    if (frame.sh_degree > 0u) d_direction = kept_direction(g);
    vec4 quat = quats(g);
    vec3 mean = means(g), scale = scale_of(g);
    float per_log = per_log_opacity(g);
    bvec3 uncut = notEqual(seen[g] & uvec3(2u, 4u, 8u), uvec3(0u));
    Stats stats = stats_of(g);
    // Clean for the next frame: no pass needs to clear N rows.
    for (uint i = 0u; i < GRADIENTS; ++i) d_splats2d[GRADIENT_STRIDE * g + i] = 0.0;

    // Color = max(SH + 0.5, 0).
    vec3 away = mean - camera.position, d_color = mix(vec3(0.0), vec3(m[6], m[7], m[8]), uncut);
    float distance = length(away);
    vec3 n = away / distance, d_n = d_direction * d_color;
    d_colors[g] = d_color;
    directions[g] = n;

    float len = length(quat);
    Projection o = project(camera, mean, quat / len, scale);
    vec2 d_mean2d;
    vec3 conic = conic_of(o.cov, o.det), d_conic;
    d_gaussian(conic, vec2(m[1], m[2]), vec3(m[3], m[4], m[5]), d_mean2d, d_conic);
    vec3 d_a0, d_a1, d_mean, d_scale;
    vec4 d_unit;
    d_rows(o, conic, d_conic, d_a0, d_a1);
    if (ANTIALIASED) d_compensation(o, m[0], d_a0, d_a1);
    d_project(camera, o, quat / len, scale, d_mean2d, d_a0, d_a1, d_mean, d_unit, d_scale);
    d_mean += d_mean_of_depth(g);
    vec3 d_geometric = d_mean;
    d_mean += d_normalize(n, distance, d_n);
    add_to_camera(away, d_mean, d_geometric, quat / len, d_unit,
                  d_lens(camera, o, d_mean2d, d_a0, d_a1));
    if (FLAT > 0.0) d_scale += d_thickness(scale);
    put_gradients(g, d_mean, d_normalize(quat / len, len, d_unit), d_scale * d_scale_of(scale),
                  m[0] / per_log);
    add_stats(g, stats, d_mean2d, 3.0 * sqrt(largest_variance(o.cov)));
}

void main() {
    uint t = gl_LocalInvocationID.x;
    list_visible(group_index() * GROUP, t);
    begin_camera();
    for (uint i = t; i < found; i += LANES) differentiate(visible[i]);
    end_camera();
}
