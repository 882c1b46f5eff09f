// Albedo between the four texels around a place, those at the border repeated.
BUFFER_texels(readonly)

struct Taps {
    uint texel[4];
    float weight[4];
};

Taps taps_at(vec2 uv) {
    ivec2 last = ivec2(mesh.texture) - 1;
    vec2 at = clamp(uv, 0.0, 1.0) * vec2(mesh.texture) - 0.5, base = floor(at), f = at - base;
    ivec2 a = clamp(ivec2(base), ivec2(0), last), b = clamp(ivec2(base) + 1, ivec2(0), last);
    Taps taps;
    taps.texel = uint[4](uint(a.y * (last.x + 1) + a.x), uint(a.y * (last.x + 1) + b.x), uint(b.y * (last.x + 1) + a.x), uint(b.y * (last.x + 1) + b.x));
    taps.weight = float[4]((1.0 - f.x) * (1.0 - f.y), f.x * (1.0 - f.y), (1.0 - f.x) * f.y, f.x * f.y);
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
