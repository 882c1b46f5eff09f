// Coefficients of vignetting that make an image brighter outwards, which lenses do not (PPISP).
vec4 brighter_edges_of(vec4 q) { return vec4(max(q.rgb + q.a, 0.0), 0.0); }
vec4 d_brighter_edges_of(vec4 q) {
    vec3 d = mix(vec3(0.0), vec3(1.0), greaterThan(q.rgb + q.a, vec3(0.0)));
    return vec4(d, d.r + d.g + d.b);
}
