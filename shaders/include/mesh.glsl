// The perturbed mesh: vertices and texels are moved by + or - of a step whose signs are hashes,
// drawn again where they are needed and never stored.
#include "contract/mesh.glsl"
#include "random.glsl"
BUFFER_frame(readonly)
BUFFER_mesh(readonly)

// What is left of the first step now (Spall's gain sequence, here log-linear like the learning
// rate).
float share_left() {
    return pow(mesh.last_share, min(float(frame.step) / float(max(mesh.max_steps, 1u)), 1.0));
}

vec3 signs(uint item, uint draw) {
    return mix(
        vec3(-1.0), vec3(1.0),
        notEqual(random_bits(uvec4(frame.seed, frame.step, item, draw)).xyz >> 31u, uvec3(0u)));
}
vec3 vertex_signs(uint v) { return signs(v, DRAW_VERTEX); }
vec3 texel_signs(uint x) { return signs(x, DRAW_TEXEL); }
