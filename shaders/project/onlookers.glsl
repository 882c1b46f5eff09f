// Cameras that say from where splats are seen. The includer has the projection with a lens that
// bends.
BUFFER_onlookers(readonly)

// Whether a camera has a place in its image.
bool sees(Camera c, vec3 mean) {
    vec4 at = vec4(mean, 1.0);
    vec3 p = vec3(dot(c.world_to_camera[0], at), dot(c.world_to_camera[1], at),
                  dot(c.world_to_camera[2], at));
    vec2 u = p.xy / p.z;
    float s = dot(u, u);
    vec2 pixel = c.focal * bent_of(radial_of(c, s), tangential_of(c), u) + c.centre;
    return p.z > 1e-6 && s < c.reach && all(greaterThanEqual(pixel, vec2(0.0))) &&
           all(lessThan(pixel, vec2(c.size)));
}
