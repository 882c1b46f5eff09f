// <exposure>: an affine map of colour for each photograph (Kerbl et al. 2023, exposure compensation
// of their code), which can express no vignetting, and so that of its camera before it. What is
// trained adds to the identity.
UNIFORM_planes
VALUE_affine(readonly)
#include "photographs/exposure/clamped.glsl"
#include "photographs/exposure/vignette.glsl"

const uint OWN_SUMS = 12u + VIGNETTE_SUMS;
struct Exposure {
    vec4 rows[3];
    Vignette vignette;
};

Exposure exposure_of() {
    return Exposure(vec4[](affine(0u, frame.view), affine(1u, frame.view), affine(2u, frame.view)),
                    vignette_of(frame.camera));
}

vec3 mapped(Exposure e, vec3 x) {
    vec4 one = vec4(x, 1.0);
    return x + vec3(dot(e.rows[0], one), dot(e.rows[1], one), dot(e.rows[2], one));
}

// at: from the middle of the image, in units of its longer side.
vec3 exposed_of(Exposure e, vec3 x, vec2 at) {
    return clamped(mapped(e, x * left_of_light(e.vignette, at)));
}

// d: by what exposed_of returns. Returns the gradient by x and adds those of the rows and of
// vignetting.
vec3 d_exposed_of(Exposure e, vec3 x, vec2 at, vec3 d, inout float sums[EXPOSURE_SUMS]) {
    vec3 left = left_of_light(e.vignette, at), lit = x * left;
    d = d_clamped(mapped(e, lit), d);
    for (uint row = 0u; row < 3u; ++row) {
        for (uint i = 0u; i < 3u; ++i) sums[4u * row + i] += d[row] * lit[i];
        sums[4u * row + 3u] += d[row];
    }
    d += d.r * e.rows[0].xyz + d.g * e.rows[1].xyz + d.b * e.rows[2].xyz;
    d_left_of_light(e.vignette, at, d * x, sums, 12u);
    return d * left;
}
