// <upstream>: of a pixel, d = dL/dpixel as shares of |d|_1 in halves, s = d . (the finished pixel), and that norm, with the sign of blue, whose size is what
// red and green leave of 1. s is that of the rounded d: it must be, for gradients come from differences of products with it.
const uint UPSTREAM_WORDS = 3u;
struct Upstream { vec3 d; float s, norm; };

vec3 rounded_upstream(vec3 d) {
    vec2 rg = unpackHalf2x16(packHalf2x16(d.rg));
    return vec3(rg, (d.b < 0.0 ? -1.0 : 1.0) * max(1.0 - abs(rg.r) - abs(rg.g), 0.0));
}

Upstream unpack_upstream(uint w[UPSTREAM_WORDS]) {
    vec2 rg = unpackHalf2x16(w[0]);
    float norm = uintBitsToFloat(w[2]), b = max(1.0 - abs(rg.r) - abs(rg.g), 0.0);
    return Upstream(vec3(rg, norm < 0.0 ? -b : b), uintBitsToFloat(w[1]), abs(norm));
}

uint[UPSTREAM_WORDS] pack_upstream(Upstream p) {
    return uint[UPSTREAM_WORDS](packHalf2x16(p.d.rg), floatBitsToUint(p.s), floatBitsToUint(p.d.b < 0.0 ? -p.norm : p.norm));
}
