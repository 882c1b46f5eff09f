// A lobe of view-dependent colour: a spherical Gaussian around the direction of its axis, 1 there,
// and the narrower the longer the axis is, exp(r^2 (cos - 1)) with r its length. The axis is trained
// as a vector: no poles, and a rate moves direction and width alike.
struct Lobe { vec3 color, axis; };
struct Lobes { Lobe of[2]; };

float lobe_value(vec3 axis, vec3 n) {
    float r = length(axis);
    return exp(r * dot(axis, n) - r * r);
}

// d log lobe_value / d axis; 0 where the axis is.
vec3 d_log_lobe(vec3 axis, vec3 n) {
    float r = length(axis);
    return r > 0.0 ? r * n + (dot(axis, n) / r - 2.0) * axis : vec3(0.0);
}
