// <upstream>: of a pixel, d = dL/dpixel and s = d . (the finished pixel) as shares of |d|_1, and that norm.
const uint UPSTREAM_WORDS = 5u;
struct Upstream { vec3 d; float s, norm; };

vec3 rounded_upstream(vec3 d) { return d; }

Upstream unpack_upstream(uint w[UPSTREAM_WORDS]) {
    return Upstream(vec3(uintBitsToFloat(w[0]), uintBitsToFloat(w[1]), uintBitsToFloat(w[2])), uintBitsToFloat(w[3]), uintBitsToFloat(w[4]));
}

uint[UPSTREAM_WORDS] pack_upstream(Upstream p) {
    return uint[UPSTREAM_WORDS](floatBitsToUint(p.d.x), floatBitsToUint(p.d.y), floatBitsToUint(p.d.z), floatBitsToUint(p.s), floatBitsToUint(p.norm));
}
