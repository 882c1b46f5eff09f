// <lens> of the projection: a pinhole. The rows of A are a0 = fx/z (V0 - u V2) and a1 = fy/z (V1 -
// v V2), with (u, v) = (x, y)/z clamped near the image, because the affine approximation fails far
// outside.
Projection project(Camera c, vec3 mean, vec4 unit_quat, vec3 scale) {
    Projection o = in_camera(c, mean, unit_quat, scale);
    vec2 slack = FRUSTUM_SLACK * 0.5 * vec2(c.size) / c.focal;
    vec2 lowest = -c.centre / c.focal - slack,
         highest = (vec2(c.size) - c.centre) / c.focal + slack;
    vec2 ratio = o.p.xy / o.p.z;
    o.uv = clamp(ratio, lowest, highest);
    o.inside = equal(o.uv, ratio);
    mat3 rows = transpose(o.V);
    o.a0 = c.focal.x / o.p.z * (rows[0] - o.uv.x * rows[2]);
    o.a1 = c.focal.y / o.p.z * (rows[1] - o.uv.y * rows[2]);
    spread(o);
    o.mean = c.focal * ratio + c.centre;
    return o;
}

// (x, y) / z of the ray through a place of the image, px.
vec2 ratio_of(Camera c, vec2 at) { return (at - c.centre) / c.focal; }

// By (u, v), clamped or not.
vec2 d_uv_of(Camera c, Projection o, vec3 d_a0, vec3 d_a1) {
    vec3 V2 = vec3(o.V[0][2], o.V[1][2], o.V[2][2]);
    return -c.focal / o.p.z * vec2(dot(V2, d_a0), dot(V2, d_a1));
}

void d_project(Camera c, Projection o, vec4 unit_quat, vec3 scale, vec2 d_mean2d, vec3 d_a0,
               vec3 d_a1, out vec3 d_mean, out vec4 d_unit_quat, out vec3 d_scale) {
    // The mean is not clamped.
    vec2 f = c.focal / o.p.z,
         d_ratio = mix(vec2(0.0), d_uv_of(c, o, d_a0, d_a1), o.inside) + c.focal * d_mean2d;
    d_splat(c, o, unit_quat, scale, d_ratio, -(dot(o.a0, d_a0) + dot(o.a1, d_a1)) / o.p.z,
            f.x * d_a0, f.y * d_a1, d_mean, d_unit_quat, d_scale);
}

// By the logarithm of both focal lengths, and by the centre. The limits of (u, v) are something
// over the focal length, less the centre over it.
vec3 d_lens(Camera c, Projection o, vec2 d_mean2d, vec3 d_a0, vec3 d_a1) {
    vec2 d_limit = mix(d_uv_of(c, o, d_a0, d_a1), vec2(0.0), o.inside);
    float d_log_focal =
        dot(d_mean2d, o.mean - c.centre) + dot(o.a0, d_a0) + dot(o.a1, d_a1) - dot(d_limit, o.uv);
    return vec3(d_log_focal, d_mean2d - d_limit / c.focal);
}
