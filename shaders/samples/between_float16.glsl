// <known>: what is known of a depth segment at a pixel, in halves: two pixels in 16 bytes.
const uint PER_VECTOR = 2u;
const float SCALE = 16.0;  // so that what is seen through a T of T_MIN is no denormal number, which a device may flush to 0
// T in front of the segment, its own transmittance; D in front of it and behind it, see between.comp.
struct Known { float T, through, front, behind; };
Known[PER_VECTOR] unpack_known(uvec4 v) {
    Known found[PER_VECTOR];
    for (uint i = 0u; i < PER_VECTOR; ++i) {
        vec2 a = unpackHalf2x16(v[2u * i]), b = unpackHalf2x16(v[2u * i + 1u]) / SCALE;
        found[i] = Known(a.x / SCALE, a.y, b.x, b.y);
    }
    return found;
}
uvec4 pack_known(Known k[PER_VECTOR]) {
    uvec4 v;
    for (uint i = 0u; i < PER_VECTOR; ++i) {
        v[2u * i] = packHalf2x16(vec2(SCALE * k[i].T, k[i].through));
        v[2u * i + 1u] = packHalf2x16(clamp(SCALE * vec2(k[i].front, k[i].behind), -65504.0, 65504.0));
    }
    return v;
}
