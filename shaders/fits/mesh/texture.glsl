// Albedo between the four texels around a place, those at the border repeated.
#include "contract/mesh.glsl"
BUFFER_texels(readonly)

struct Taps {
    uvec4 texel;
    vec4 weight;
};

Taps taps_at(vec2 uv) {
    ivec2 last = ivec2(mesh.texture) - 1;
    vec2 at = clamp(uv, 0.0, 1.0) * vec2(mesh.texture) - 0.5, base = floor(at), f = at - base;
    ivec2 a = clamp(ivec2(base), ivec2(0), last), b = clamp(ivec2(base) + 1, ivec2(0), last);
    Taps taps;
    taps.texel = uvec4(a.y, a.y, b.y, b.y) * uint(last.x + 1) + uvec4(a.x, b.x, a.x, b.x);
    taps.weight = vec4(1.0 - f.x, f.x, 1.0 - f.x, f.x) * vec4(vec2(1.0 - f.y), vec2(f.y));
    return taps;
}

// step: signed size of the perturbation, 0 for none.
vec3 albedo(Taps taps, float step) {
    vec3 sum = vec3(0.0);
    for (int i = 0; i < 4; ++i) {
        vec3 value = texels[taps.texel[i]];
        if (step != 0.0) value += step * texel_signs(taps.texel[i]);
        sum += taps.weight[i] * value;
    }
    return sum;
}
