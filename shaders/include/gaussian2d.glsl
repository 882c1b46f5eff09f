// The projected Gaussian: its inverse covariance, the quad that holds alpha >= 1/255, and its value
// at a pixel.
#include "contract/splats.glsl"

// The inverse covariance in completed squares, (A, k, c): d^T cov^-1 d = A (dx + k dy)^2 + c dy^2.
// Nothing cancels in it far along a splat that is long and thin on screen, where the quadratic form
// and its three gradients lose all their digits.
vec3 conic_of(vec3 cov, float det) { return vec3(cov.z / det, -cov.y / cov.z, 1.0 / cov.z); }

// Larger eigenvalue of the covariance, px^2.
float largest_variance(vec3 cov) {
    return 0.5 * (cov.x + cov.z) + length(vec2(0.5 * (cov.x - cov.z), cov.y));
}

// Half axes of the oriented box around the ellipse alpha >= ALPHA_MIN: eigenvectors times sqrt(2
// ln(255 opacity) lambda). The eigenvector is taken from the row of (cov - lambda) that cannot
// vanish, so axis-aligned and isotropic splats are safe.
void quad_axes(vec3 cov, float det, float opacity, out vec2 axis1, out vec2 axis2) {
    float lambda1 = largest_variance(cov);
    float lambda2 = det / lambda1;
    vec2 e = cov.x >= cov.z ? vec2(lambda1 - cov.z, cov.y) : vec2(cov.y, lambda1 - cov.x);
    float len = length(e);
    e = len > 1e-12 ? e / len : vec2(1.0, 0.0);
    float bound = sqrt(2.0 * log(opacity / ALPHA_MIN));
    axis1 = e * (bound * sqrt(lambda1) + QUAD_MARGIN);
    axis2 = vec2(-e.y, e.x) * (bound * sqrt(lambda2) + QUAD_MARGIN);
}

// Gradients of mean and conic from the sums over pixels of w t, w dy and of w t^2, w t dy, w dy^2,
// where w G = dL/dG G and t = dx + k dy.
void d_gaussian(vec3 conic, vec2 first, vec3 second, out vec2 d_mean, out vec3 d_conic) {
    float along = conic.x * first.x;
    d_mean = -vec2(along, along * conic.y + conic.z * first.y);
    d_conic = -vec3(0.5 * second.x, conic.x * second.y, 0.5 * second.z);
}

// exp(-1/2 d^T cov^-1 d), d = mean - pixel centre, px.
float gaussian(vec2 d, vec3 conic) {
    const float PER_LOG = -0.5 / log(2.0);
    float t = d.x + conic.y * d.y;
    // Squares, since the moments of the backward pass have them too.
    return exp2(PER_LOG * (conic.x * (t * t) + conic.z * (d.y * d.y)));
}
