// Colours of a photograph end at 0 and 1. The derivative passes inside, and outside where descent
// leads back: a pixel would stay there for ever else.
vec3 clamped(vec3 x) { return clamp(x, 0.0, 1.0); }
vec3 d_clamped(vec3 x, vec3 d) {
    bvec3 inside = equal(x, clamped(x)), above = greaterThan(x, vec3(1.0));
    return mix(mix(min(d, 0.0), max(d, 0.0), above), d, inside);
}
