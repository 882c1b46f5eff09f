// A 2D Gaussian of an image fit, and its gradients. With A = R(angle) diag(scale), the covariance
// is A A^T + DILATION as of a projected splat: rows a0 = (cos s1, -sin s2), a1 = (sin s1, cos s2),
// whose derivatives by the angle are -a1 and a0.
#include "contract/fit.glsl"
#include "projection.glsl"
#include "gaussian2d.glsl"

struct Blob {
    vec2 mean;       // px
    vec2 log_scale;  // log px
    float angle;     // rad
    vec3 color;      // not bounded
    float logit;     // of the opacity
};

Blob blob_of(float v[BLOB]) {
    return Blob(vec2(v[0], v[1]), vec2(v[2], v[3]), v[4], vec3(v[5], v[6], v[7]), v[8]);
}
float[BLOB] numbers_of(Blob b) {
    return float[](b.mean.x, b.mean.y, b.log_scale.x, b.log_scale.y, b.angle, b.color.r, b.color.g,
                   b.color.b, b.logit);
}

Projection project(Blob b) {
    Projection o;
    vec2 scale = exp(b.log_scale), turn = vec2(cos(b.angle), sin(b.angle));
    o.mean = b.mean;
    o.a0 = vec3(turn.x * scale.x, -turn.y * scale.y, 0.0);
    o.a1 = vec3(turn.y * scale.x, turn.x * scale.y, 0.0);
    o.cov = vec3(dot(o.a0, o.a0) + DILATION, dot(o.a0, o.a1), dot(o.a1, o.a1) + DILATION);
    o.sharp = scale.x * scale.x * scale.y * scale.y;
    o.det = o.sharp + DILATION * (o.cov.x + o.cov.z - DILATION);
    return o;
}

float opacity_of(Blob b) { return 1.0 / (1.0 + exp(-b.logit)); }

// From the sums over pixels of an entry of d_splats2d.
Blob d_blob(Blob b, float m[GRADIENTS]) {
    Projection o = project(b);
    vec3 conic = conic_of(o.cov, o.det), d_conic, d_a0, d_a1;
    Blob d;
    d_gaussian(conic, vec2(m[1], m[2]), vec3(m[3], m[4], m[5]), d.mean, d_conic);
    d_rows(o, conic, d_conic, d_a0, d_a1);
    d.log_scale = vec2(o.a0.x * d_a0.x + o.a1.x * d_a1.x, o.a0.y * d_a0.y + o.a1.y * d_a1.y);
    d.angle = dot(o.a0, d_a1) - dot(o.a1, d_a0);
    d.color = vec3(m[6], m[7], m[8]);
    // Times 1 - o, which near 1 has no digits as a difference.
    d.logit = m[0] / (1.0 + exp(b.logit));
    return d;
}
