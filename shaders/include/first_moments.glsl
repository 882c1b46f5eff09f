// What a pixel adds to the first two moments of a splat, w t and w dy; for scores of densification the absolute gradient of the mean by that pixel alone, so that pixels
// which pull in different directions do not cancel (Ye et al. 2024, "AbsGS").
layout(constant_id = 15) const bool ABSOLUTE = false;

// d: t = dx + k dy, and dy.
vec2 first_of(float w, vec2 d, vec3 conic) {
    float along = conic.x * d.x;
    return ABSOLUTE ? abs(w * vec2(along, along * conic.y + conic.z * d.y)) : w * d;
}
