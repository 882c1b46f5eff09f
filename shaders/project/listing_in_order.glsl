// <listing> of project/backward.comp that adds up what the camera gets: its intrinsics, and its
// pose, because moved and turned against all splats at once it makes the image that they make moved
// and turned the other way. Visible splats are listed in the order of memory, so that sums have one
// order.
#include "contract/pose.glsl"
BUFFER_camera_sums(writeonly)
shared uint before[LANES];
shared vec3 pose_lines[LANES];

void list_visible(uint first, uint t) {
    const uint EACH = GROUP / LANES;
    uint flags[EACH], own = 0u, place = 0u;
    for (uint i = 0u; i < EACH; ++i) {
        uint g = first + EACH * t + i;
        flags[i] = g < counts.splats && seen[g] != 0u ? 1u : 0u;
        own += flags[i];
    }
    before[t] = own;
    barrier();
    for (uint i = 0u; i < t; ++i) place += before[i];
    if (t == LANES - 1u) found = place + own;
    for (uint i = 0u; i < EACH; ++i)
        if (flags[i] != 0u) visible[place++] = first + EACH * t + i;
    barrier();
}

vec3 d_inner;         // dL/d intrinsics
// dL/d shift of all splats, and dL/d turn of them about the camera; world frame.
vec3 force, torque;
void begin_camera() { force = torque = d_inner = vec3(0.0); }

// away: mean less camera position. d_mean: dL/d mean; d_geometric: without what the direction of
// view adds, which a turn about the camera leaves as it is.
void add_to_camera(vec3 away, vec3 d_mean, vec3 d_geometric, vec4 q, vec4 d, vec3 d_own) {
    d_inner += d_own;
    force += d_mean;
    // (0, e) q is what a turn about e adds, twice.
    torque += cross(away, d_geometric) + 0.5 * (q.x * d.yzw - d.x * q.yzw + cross(q.yzw, d.yzw));
}

vec3 sum_lanes(vec3 value) {
    uint t = gl_LocalInvocationID.x;
    pose_lines[t] = value;
    barrier();
    for (uint half_size = LANES / 2u; half_size > 0u; half_size >>= 1u) {
        if (t < half_size) pose_lines[t] += pose_lines[t + half_size];
        barrier();
    }
    value = pose_lines[0];
    barrier();
    return value;
}

void end_camera() {
    vec3 sums[3] = vec3[](sum_lanes(force), sum_lanes(torque), sum_lanes(d_inner));
    if (gl_LocalInvocationID.x > 0u) return;
    for (uint i = 0u; i < 3u; ++i)
        for (uint j = 0u; j < 3u; ++j) camera_sums[9u * group_index() + 3u * i + j] = sums[i][j];
}
