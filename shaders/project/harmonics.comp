// One thread a splat: the SH of a degree that look most like its base colour and its lobes from
// where cameras see it, by least squares. Each camera that has the mean in its image counts alike,
// and directions all around count a little. app/hardsplat/model/lobes.py has the same in numpy.
#include "common.glsl"
#include "contract/trained.glsl"
#include "contract/harmonics.glsl"

layout(local_size_x = GROUP) in;

UNIFORM_planes
VALUE_means(readonly)
VALUE_sh0(readonly)
VALUE_lobe_colors(readonly)
VALUE_lobe_axes(readonly)
BUFFER_fit_settings(readonly)
BUFFER_around(readonly)
BUFFER_harmonics(writeonly)
#include "projection.glsl"
#include "lens_distorted.glsl"
#include "project/onlookers.glsl"
#include "sh.glsl"
#include "lobes.glsl"

// The normal equations of both lobes: the rows of the lower triangle one after the other, which
// become those of its Cholesky factor, and the right-hand sides, which become the coefficients.
float normal[HARMONICS * (HARMONICS + 1u) / 2u];
vec2 coefficients[HARMONICS];

// A lobe whose square is beyond float32 is 0.
float value_of(vec3 axis, vec3 n) {
    float value = lobe_value(axis, n);
    return finite(vec4(value)) ? value : 0.0;
}

void add(vec3 n, vec3 axis0, vec3 axis1, float weight) {
    float basis[HARMONICS];
    for (uint k = 0u; k < fit_settings.bands; ++k) basis[k] = sh_basis_of(k, n);
    vec2 values = weight * vec2(value_of(axis0, n), value_of(axis1, n));
    uint at = 0u;
    [[dont_unroll]] for (uint i = 0u; i < fit_settings.bands; ++i) {
        coefficients[i] += basis[i] * values;
        float weighed = weight * basis[i];
        [[dont_unroll]] for (uint j = 0u; j <= i; ++j) normal[at++] += weighed * basis[j];
    }
}

// Row i of the triangle begins there.
uint row(uint i) { return i * (i + 1u) / 2u; }

void solve() {
    uint bands = fit_settings.bands;
    [[dont_unroll]] for (uint i = 0u; i < bands; ++i) {
        [[dont_unroll]] for (uint j = 0u; j <= i; ++j) {
            float sum = normal[row(i) + j];
            [[dont_unroll]] for (uint k = 0u; k < j; ++k)
                sum -= normal[row(i) + k] * normal[row(j) + k];
            normal[row(i) + j] = i == j ? sqrt(max(sum, 1e-9)) : sum / normal[row(j) + j];
        }
        vec2 left = coefficients[i];
        [[dont_unroll]] for (uint k = 0u; k < i; ++k) left -= normal[row(i) + k] * coefficients[k];
        coefficients[i] = left / normal[row(i) + i];
    }
    [[dont_unroll]] for (uint below = bands; below > 0u; --below) {
        uint i = below - 1u;
        vec2 left = coefficients[i];
        [[dont_unroll]] for (uint k = below; k < bands; ++k)
            left -= normal[row(k) + i] * coefficients[k];
        coefficients[i] = left / normal[row(i) + i];
    }
}

void main() {
    uint place = group_index() * GROUP + gl_LocalInvocationID.x;
    if (place >= fit_settings.count) return;
    uint g = fit_settings.first + place;
    vec3 mean = means(g), axis0 = lobe_axes(0u, g), axis1 = lobe_axes(1u, g);
    uint bands = fit_settings.bands;
    for (uint k = 0u; k < bands; ++k) coefficients[k] = vec2(0.0);
    for (uint at = 0u; at < row(bands); ++at) normal[at] = 0.0;
    float seen = 0.0;
    for (uint i = 0u; i < fit_settings.onlookers; ++i) {
        if (!sees(onlookers[i], mean)) continue;
        seen += 1.0;
        add(normalize(mean - onlookers[i].position), axis0, axis1, 1.0);
    }
    float each = fit_settings.share * max(seen, 1.0) / float(fit_settings.around);
    for (uint i = 0u; i < fit_settings.around; ++i) add(around[i], axis0, axis1, each);
    solve();
    vec3 color0 = lobe_colors(0u, g), color1 = lobe_colors(1u, g);
    for (uint k = 0u; k < bands; ++k) {
        vec3 sh = coefficients[k].x * color0 + coefficients[k].y * color1;
        harmonics[place * bands + k] = k == 0u ? sh + sh0(g) : sh;
    }
}
