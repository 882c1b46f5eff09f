// <upstream>: of a pixel, d = dL/dpixel and s = d . (the finished pixel) as shares of |d|_1 in halves, and that norm.
const uint UPSTREAM_WORDS = 3u;
struct Upstream { vec3 d; float s, norm; };

Upstream unpack_upstream(uint w[UPSTREAM_WORDS]) {
    vec2 xy = unpackHalf2x16(w[0]), zs = unpackHalf2x16(w[1]);
    return Upstream(vec3(xy, zs.x), zs.y, uintBitsToFloat(w[2]));
}

uint[UPSTREAM_WORDS] pack_upstream(Upstream p) {
    return uint[UPSTREAM_WORDS](packHalf2x16(p.d.xy), packHalf2x16(vec2(p.d.z, clamp(p.s, -6e4, 6e4))), floatBitsToUint(p.norm));
}
