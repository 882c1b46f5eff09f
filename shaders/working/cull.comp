// Which splats of a model a view may show: all that project/forward.comp will find visible, and a
// few beyond, since two compilations of one formula may round apart. The margins are far above
// that. Floor: 12 bytes a splat behind the camera, 44 for the others.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/working.glsl"
#include "projection.glsl"
#include <lens>
#include "gaussian2d.glsl"

layout(local_size_x = GROUP) in;
UNIFORM_planes
VALUE_means(readonly)
VALUE_quats(readonly)
BUFFER_camera(readonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_shown_bits(writeonly)
BUFFER_shown_sums(writeonly)
#include "project/given.glsl"

const float MARGIN = 1e-3, MARGIN_PX = 0.1;
const uint BLOCK = GROUP * SORT_ROWS, WORDS = BLOCK / 32u;
shared uint words[WORDS], total;

// Without --antialiased's compensation, which only makes splats fainter.
bool may_be_shown(uint g) {
    vec3 mean = means(g);
    vec4 row = camera.world_to_camera[2];
    float far = dot(abs(row.xyz), abs(mean)) + abs(row.w);
    if (dot(row.xyz, mean) + row.w < frame.near_plane - MARGIN * far) return false;
    float opacity = opacity_of(g);
    if (!(opacity > ALPHA_MIN * (1.0 - MARGIN))) return false;
    vec4 quat = quats(g);
    Projection o = project(camera, mean, quat / length(quat), scale_of(g));
    vec2 axis1, axis2;
    quad_axes(o.cov, o.det, max(opacity, ALPHA_MIN * (1.0 + MARGIN)), axis1, axis2);
    vec2 reach = (abs(axis1) + abs(axis2)) * (1.0 + MARGIN) + MARGIN_PX;
    return !any(lessThan(o.mean + reach, vec2(0.0))) &&
           !any(greaterThan(o.mean - reach, vec2(camera.size)));
}

void main() {
    uint block = group_index(), t = gl_LocalInvocationID.x;
    if (t < WORDS) words[t] = 0u;
    if (t == 0u) total = 0u;
    barrier();
    for (uint place = t; place < BLOCK; place += GROUP) {
        uint g = block * BLOCK + place;
        if (g < counts.splats && may_be_shown(g)) atomicOr(words[place / 32u], 1u << place % 32u);
    }
    barrier();
    if (t < WORDS) {
        shown_bits[block * WORDS + t] = words[t];
        atomicAdd(total, bitCount(words[t]));
    }
    barrier();
    if (t == 0u) shown_sums[block] = total;
}
