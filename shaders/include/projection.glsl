// EWA projection of a 3D Gaussian (Zwicker et al. 2001, eq. 31; Kerbl et al. 2023, eq. 5), each
// step followed by its gradient. Factored form: with M = R(q) diag(s) and V = W M, the 2D
// covariance is A A^T + DILATION, where the rows of A = J V are those of <lens>, which has
// `project`.
#include "contract/splats.glsl"

mat3 rotation(vec4 q) {  // q unit, wxyz; columns as GLSL stores them
    float w = q.x, x = q.y, y = q.z, z = q.w;
    return mat3(1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y),
                2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x),
                2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y));
}

// d_R -> gradient of the unit quaternion. g[c][r] is dL/dR of row r, column c.
vec4 d_rotation(vec4 q, mat3 g) {
    float w = q.x, x = q.y, y = q.z, z = q.w;
    return 2.0 * vec4(x * (g[1][2] - g[2][1]) + y * (g[2][0] - g[0][2]) + z * (g[0][1] - g[1][0]),
                      -2.0 * x * (g[1][1] + g[2][2]) + y * (g[1][0] + g[0][1]) +
                          z * (g[2][0] + g[0][2]) + w * (g[1][2] - g[2][1]),
                      x * (g[1][0] + g[0][1]) - 2.0 * y * (g[0][0] + g[2][2]) +
                          z * (g[2][1] + g[1][2]) + w * (g[2][0] - g[0][2]),
                      x * (g[2][0] + g[0][2]) + y * (g[2][1] + g[1][2]) -
                          2.0 * z * (g[0][0] + g[1][1]) + w * (g[0][1] - g[1][0]));
}

struct Projection {
    vec3 p;       // camera space, world units
    vec2 uv;      // (x, y) / z where J is taken
    bvec2 inside; // that is the mean's, component-wise
    mat3 V;       // W R(q) diag(s)
    vec3 a0, a1;  // rows of A
    vec3 cov;     // (xx, xy, yy), px^2, dilated
    float det;    // of cov, px^4
    float sharp;  // det before the dilation
    vec2 mean;    // px
};

mat3 world_rotation(Camera c) {
    return transpose(
        mat3(c.world_to_camera[0].xyz, c.world_to_camera[1].xyz, c.world_to_camera[2].xyz));
}

// The splat in the camera's frame.
Projection in_camera(Camera c, vec3 mean, vec4 unit_quat, vec3 scale) {
    Projection o;
    mat3 W = world_rotation(c);
    o.p = W * mean + vec3(c.world_to_camera[0].w, c.world_to_camera[1].w, c.world_to_camera[2].w);
    mat3 R = rotation(unit_quat);
    o.V = W * mat3(R[0] * scale.x, R[1] * scale.y, R[2] * scale.z);
    return o;
}

// The rest of it, from the rows of A.
void spread(inout Projection o) {
    o.cov = vec3(dot(o.a0, o.a0) + DILATION, dot(o.a0, o.a1), dot(o.a1, o.a1) + DILATION);
    // Lagrange's identity: xx yy - xy^2 would cancel to nothing, or below it, for splats that are
    // long and thin on screen.
    vec3 area = cross(o.a0, o.a1);
    o.sharp = dot(area, area);
    o.det = o.sharp + DILATION * (o.cov.x + o.cov.z - DILATION);
}

// How the depth at which rays pass the middle of the splat changes from pixel to pixel, world units
// per px: the mean of z given the pixel, S^-1 cov(uv, z) with S the 2D covariance (Zhang et al.
// 2024, RaDe-GS, eq. 12).
vec2 depth_slopes(Projection o) {
    vec3 v2 = transpose(o.V)[2];
    vec2 c = vec2(dot(o.a0, v2), dot(o.a1, v2));
    return vec2(o.cov.z * c.x - o.cov.y * c.y, o.cov.x * c.y - o.cov.y * c.x) / o.det;
}

// The standard deviation of z given the pixel, world units.
float depth_deviation(Projection o) {
    vec3 v2 = transpose(o.V)[2];
    vec2 c = vec2(dot(o.a0, v2), dot(o.a1, v2));
    return sqrt(max(dot(v2, v2) - dot(c, depth_slopes(o)), 0.0));
}

// Gradients of the rows of A from those of conic = (A, k, c) = (1 / (xx - xy^2/yy), -xy/yy, 1/yy),
// see gaussian2d.glsl: d_xx = -A^2 d_A, d_xy = 2 k d_xx - c d_k, d_yy = k d_xy - k^2 d_xx - c^2
// d_c, and xx = a0.a0, xy = a0.a1, yy = a1.a1 (+ DILATION).
void d_rows(Projection o, vec3 conic, vec3 d_conic, out vec3 d_a0, out vec3 d_a1) {
    vec3 beside = o.a0 + conic.y * o.a1;
    float slope = conic.z * d_conic.y;
    d_a0 = -2.0 * conic.x * conic.x * d_conic.x * beside - slope * o.a1;
    d_a1 = conic.y * d_a0 - slope * beside - 2.0 * conic.z * conic.z * d_conic.z * o.a1;
}

// The 2D filter of Mip-Splatting (Yu et al. 2024, section 5.2): times the opacity, it keeps a splat
// that dilation makes larger from getting brighter.
float compensation(Projection o) { return sqrt(o.sharp / o.det); }

// Adds what the rows of A get through log(compensation) = 1/2 (log sharp - log det): with n = a0 x
// a1, sharp = n.n has the gradients 2 a1 x n and 2 n x a0, and det = sharp + DILATION (a0.a0 +
// a1.a1 + DILATION).
void d_compensation(Projection o, float d_log, inout vec3 d_a0, inout vec3 d_a1) {
    vec3 n = cross(o.a0, o.a1);
    // d_log (1/sharp - 1/det).
    float per_det = d_log * DILATION / o.det,
          both = per_det * (o.cov.x + o.cov.z - DILATION) / o.sharp;
    d_a0 += both * cross(o.a1, n) - per_det * o.a0;
    d_a1 += both * cross(n, o.a0) - per_det * o.a1;
}

// From the ratio (x, y) / z, the gradient of z where that is held, and those of the rows of V but
// for 1/z, which are e0, e1 and -(u e0 + v e1) -> the splat's geometry.
void d_splat(Camera c, Projection o, vec4 unit_quat, vec3 scale, vec2 d_ratio, float d_z, vec3 e0,
             vec3 e1, out vec3 d_mean, out vec4 d_unit_quat, out vec3 d_scale) {
    vec3 d_p = vec3(d_ratio, -dot(d_ratio, o.p.xy / o.p.z)) / o.p.z;
    d_p.z += d_z;
    mat3 Wt = transpose(world_rotation(c));
    d_mean = Wt * d_p;
    mat3 d_V = transpose(mat3(e0, e1, -(o.uv.x * e0 + o.uv.y * e1)));
    mat3 d_M = Wt * d_V;
    mat3 R = rotation(unit_quat);
    d_scale = vec3(dot(R[0], d_M[0]), dot(R[1], d_M[1]), dot(R[2], d_M[2]));
    d_unit_quat = d_rotation(unit_quat, mat3(d_M[0] * scale.x, d_M[1] * scale.y, d_M[2] * scale.z));
}

// x / |x| backwards: d_x from the gradient of the unit vector.
vec4 d_normalize(vec4 unit, float len, vec4 d_unit) {
    return (d_unit - unit * dot(unit, d_unit)) / len;
}
vec3 d_normalize(vec3 unit, float len, vec3 d_unit) {
    return (d_unit - unit * dot(unit, d_unit)) / len;
}
