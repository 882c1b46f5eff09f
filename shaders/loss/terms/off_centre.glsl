// How far the centre of vignetting is from the middle of the image, squared (PPISP).
vec4 off_centre_of(vec4 q) { return vec4((q.rgb + q.a) * (q.rgb + q.a), 0.0); }
vec4 d_off_centre_of(vec4 q) {
    vec3 d = 2.0 * (q.rgb + q.a);
    return vec4(d, d.r + d.g + d.b);
}
