// The projected Gaussian: its inverse covariance, the quad that holds alpha >= 1/255, and its value at a pixel.

vec3 inverse_cov(vec3 cov) {
    float det = cov.x * cov.z - cov.y * cov.y;
    return vec3(cov.z, -cov.y, cov.x) / det;
}

// dX = -Y dY Y for Y = X^-1, with off-diagonal entries counted once.
vec3 d_inverse_cov(vec3 conic, vec3 d_conic) {
    mat2 Y = mat2(conic.x, conic.y, conic.y, conic.z);
    mat2 g = mat2(d_conic.x, 0.5 * d_conic.y, 0.5 * d_conic.y, d_conic.z);
    mat2 d = -(Y * g * Y);
    return vec3(d[0][0], 2.0 * d[0][1], d[1][1]);
}

// Larger eigenvalue of the covariance, px^2.
float largest_variance(vec3 cov) { return 0.5 * (cov.x + cov.z) + length(vec2(0.5 * (cov.x - cov.z), cov.y)); }

// Half axes of the oriented box around the ellipse alpha >= ALPHA_MIN: eigenvectors times sqrt(2 ln(255 opacity) lambda).
// The eigenvector is taken from the row of (cov - lambda) that cannot vanish, so axis-aligned and isotropic splats are safe.
void quad_axes(vec3 cov, float opacity, out vec2 axis1, out vec2 axis2) {
    float lambda1 = largest_variance(cov);
    float lambda2 = (cov.x * cov.z - cov.y * cov.y) / lambda1;
    vec2 e = cov.x >= cov.z ? vec2(lambda1 - cov.z, cov.y) : vec2(cov.y, lambda1 - cov.x);
    float len = length(e);
    e = len > 1e-12 ? e / len : vec2(1.0, 0.0);
    float bound = sqrt(2.0 * log(opacity / ALPHA_MIN));
    axis1 = e * (bound * sqrt(lambda1) + QUAD_MARGIN);
    axis2 = vec2(-e.y, e.x) * (bound * sqrt(lambda2) + QUAD_MARGIN);
}

// exp(-1/2 d^T conic d), d = mean - pixel centre, px.
float gaussian(vec2 d, vec3 conic) {
    return exp(-0.5 * (conic.x * d.x * d.x + conic.z * d.y * d.y) - conic.y * d.x * d.y);
}
