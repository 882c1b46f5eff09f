// Rotation vectors: exp(w) = I + sin(t)/t [w]x + (1 - cos t)/t^2 [w]x^2, t = |w|, and how exp(w +
// dw) = exp(J dw) exp(w) moves (Sola et al. 2018, eq. 143, 145).
mat3 cross_matrix(vec3 w) { return mat3(0.0, w.z, -w.y, -w.z, 0.0, w.x, w.y, -w.x, 0.0); }

// (sin t / t, (1 - cos t) / t^2, (t - sin t) / t^3); as series where t is small, since the
// differences have no digits there.
vec3 turn_factors(vec3 w) {
    float square = dot(w, w), t = sqrt(square);
    if (t < 0.1)
        return vec3(1.0 - square / 6.0 * (1.0 - square / 20.0),
                    0.5 - square / 24.0 * (1.0 - square / 30.0),
                    1.0 / 6.0 - square / 120.0 * (1.0 - square / 42.0));
    return vec3(sin(t) / t, (1.0 - cos(t)) / square, (t - sin(t)) / (square * t));
}

mat3 turn_matrix(vec3 w) {
    mat3 k = cross_matrix(w);
    vec3 f = turn_factors(w);
    return mat3(1.0) + f.x * k + f.y * k * k;
}

mat3 left_jacobian(vec3 w) {
    mat3 k = cross_matrix(w);
    vec3 f = turn_factors(w);
    return mat3(1.0) + f.y * k + f.z * k * k;
}
