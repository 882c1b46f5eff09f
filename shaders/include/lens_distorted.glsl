// <lens> of the projection: a lens as OpenCV and COLMAP model it, so that photographs need no
// undistortion. With u = (x, y)/z and s = |u|^2, the image is focal * b(u) + centre, b(u) = g(s) u
// + s q + 2 (q.u) u: radial g, and for the perspective model the tangential q = (p2, p1). Its
// Jacobian D is symmetric, and the rows of A are a0 = fx (Dxx b0 + Dxy b1), a1 = fy (Dxy b0 + Dyy
// b1) with b0 = (V0 - u V2)/z, b1 = (V1 - v V2)/z.
#include "contract/core.glsl"

// g and its first two derivatives by s. Perspective (1 + k1 s + k2 s^2 + k3 s^3) / (1 + k4 s + k5
// s^2 + k6 s^3).
vec3 radial_of_perspective(vec3 k, vec3 l, float s) {
    vec3 above = vec3(1.0 + s * (k.x + s * (k.y + s * k.z)), k.x + s * (2.0 * k.y + s * 3.0 * k.z),
                      2.0 * k.y + 6.0 * k.z * s);
    vec3 below = vec3(1.0 + s * (l.x + s * (l.y + s * l.z)), l.x + s * (2.0 * l.y + s * 3.0 * l.z),
                      2.0 * l.y + 6.0 * l.z * s);
    float g = above.x / below.x, first = (above.y - g * below.y) / below.x;
    return vec3(g, first, (above.z - 2.0 * first * below.y - g * below.z) / below.x);
}

// Fisheye: g = w (1 + k1 t + k2 t^2 + k3 t^3 + k4 t^4) with t the squared angle from the axis and w
// = atan(|u|)/|u|, as a series where |u| is small.
vec3 radial_of_fisheye(vec4 k, float s) {
    vec3 w;
    if (s < 0.05) {
        w = vec3(
            1.0 - s * (1.0 / 3.0 - s * (0.2 - s * (1.0 / 7.0 - s / 9.0 * (1.0 - s * 9.0 / 11.0)))),
            -1.0 / 3.0 + s * (0.4 - s * (3.0 / 7.0 - s * (4.0 / 9.0 - s * 5.0 / 11.0))),
            0.4 - s * (6.0 / 7.0 - s * (12.0 / 9.0 - s * 20.0 / 11.0)));
    } else {
        float r = sqrt(s), per = 1.0 / (1.0 + s);
        w.x = atan(r) / r;
        w.y = (per - w.x) / (2.0 * s);
        w.z = (-per * per - 3.0 * w.y) / (2.0 * s);
    }
    float t = s * w.x * w.x, per = 1.0 / (1.0 + s), t1 = w.x * per, t2 = (w.y - w.x * per) * per;
    float q = 1.0 + t * (k.x + t * (k.y + t * (k.z + t * k.w))),
          by_t = k.x + t * (2.0 * k.y + t * (3.0 * k.z + t * 4.0 * k.w));
    float q1 = by_t * t1, q2 = (2.0 * k.y + t * (6.0 * k.z + t * 12.0 * k.w)) * t1 * t1 + by_t * t2;
    return vec3(w.x * q, w.y * q + w.x * q1, w.z * q + 2.0 * w.y * q1 + w.x * q2);
}

vec3 radial_of(Camera c, float s) {
    if (c.lens == LENS_FISHEYE) return radial_of_fisheye(c.distortion[0], s);
    return c.lens == LENS_PERSPECTIVE
               ? radial_of_perspective(vec3(c.distortion[0].xy, c.distortion[1].x),
                                       c.distortion[1].yzw, s)
               : vec3(1.0, 0.0, 0.0);
}
vec2 tangential_of(Camera c) { return c.lens == LENS_PERSPECTIVE ? c.distortion[0].wz : vec2(0.0); }

// b(u).
vec2 bent_of(vec3 g, vec2 q, vec2 u) { return g.x * u + dot(u, u) * q + 2.0 * dot(q, u) * u; }

// Dxx, Dxy, Dyy.
vec3 bend_of(vec3 g, vec2 q, vec2 u) {
    float along = g.x + 2.0 * dot(q, u);
    return vec3(along + 2.0 * u.x * (g.y * u.x + 2.0 * q.x),
                2.0 * (g.y * u.x * u.y + q.x * u.y + q.y * u.x),
                along + 2.0 * u.y * (g.y * u.y + 2.0 * q.y));
}

Projection project(Camera c, vec3 mean, vec4 unit_quat, vec3 scale) {
    Projection o = in_camera(c, mean, unit_quat, scale);
    o.uv = o.p.xy / o.p.z;
    o.inside = bvec2(true);
    float s = dot(o.uv, o.uv);
    vec3 g = radial_of(c, s);
    vec2 q = tangential_of(c);
    vec3 D = bend_of(g, q, o.uv);
    mat3 rows = transpose(o.V);
    vec3 b0 = (rows[0] - o.uv.x * rows[2]) / o.p.z, b1 = (rows[1] - o.uv.y * rows[2]) / o.p.z;
    o.a0 = c.focal.x * (D.x * b0 + D.y * b1);
    o.a1 = c.focal.y * (D.y * b0 + D.z * b1);
    spread(o);
    // Beyond, rays come back into the image: nothing of it is drawn.
    if (!(s < c.reach)) o.det = 0.0;
    o.mean = c.focal * bent_of(g, q, o.uv) + c.centre;
    return o;
}

// (x, y) / z of the ray through a place of the image, px: Newton's method, within the lens's reach.
vec2 ratio_of(Camera c, vec2 at) {
    vec2 wanted = (at - c.centre) / c.focal, u = wanted, q = tangential_of(c);
    if (c.lens == 0u) return u;
    for (int i = 0; i < 12; ++i) {
        float s = dot(u, u);
        if (s >= c.reach) u *= 0.999 * sqrt(c.reach / s);
        s = dot(u, u);
        vec3 g = radial_of(c, s), D = bend_of(g, q, u);
        vec2 off = bent_of(g, q, u) - wanted;
        u -= vec2(D.z * off.x - D.y * off.y, D.x * off.y - D.y * off.x) / (D.x * D.z - D.y * D.y);
    }
    return u;
}

void d_project(Camera c, Projection o, vec4 unit_quat, vec3 scale, vec2 d_mean2d, vec3 d_a0,
               vec3 d_a1, out vec3 d_mean, out vec4 d_unit_quat, out vec3 d_scale) {
    vec2 u = o.uv, q = tangential_of(c), d_bent = c.focal * d_mean2d;
    vec3 g = radial_of(c, dot(u, u)), D = bend_of(g, q, u);
    mat3 rows = transpose(o.V);
    vec3 b0 = (rows[0] - u.x * rows[2]) / o.p.z, b1 = (rows[1] - u.y * rows[2]) / o.p.z;
    vec3 e0 = c.focal.x * d_a0, e1 = c.focal.y * d_a1;
    // By D: its entries get b_j . e_i. M is that plus its transpose, and with H = dD/du symmetric
    // in all three indices d_u = 1/2 M : H.
    float trace = dot(b0, e0) + dot(b1, e1), mixed = dot(b1, e0) + dot(b0, e1);
    mat2 M = mat2(2.0 * dot(b0, e0), mixed, mixed, 2.0 * dot(b1, e1));
    vec2 d_ratio = 2.0 * (g.y * (u * trace + M * u) + g.z * u * dot(u, M * u) + q * trace + M * q);
    d_ratio += vec2(D.x * d_bent.x + D.y * d_bent.y, D.y * d_bent.x + D.z * d_bent.y);
    vec3 d_b0 = D.x * e0 + D.y * e1, d_b1 = D.y * e0 + D.z * e1;
    d_ratio -= vec2(dot(rows[2], d_b0), dot(rows[2], d_b1)) / o.p.z;
    d_splat(c, o, unit_quat, scale, d_ratio, -(dot(b0, d_b0) + dot(b1, d_b1)) / o.p.z, d_b0 / o.p.z,
            d_b1 / o.p.z, d_mean, d_unit_quat, d_scale);
}

// By the logarithm of both focal lengths, and by the centre.
vec3 d_lens(Camera c, Projection o, vec2 d_mean2d, vec3 d_a0, vec3 d_a1) {
    return vec3(dot(d_mean2d, o.mean - c.centre) + dot(o.a0, d_a0) + dot(o.a1, d_a1), d_mean2d);
}
