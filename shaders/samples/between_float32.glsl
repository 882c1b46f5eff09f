// <known>: what is known of a depth segment at a pixel, as floats: one pixel in 16 bytes.
const uint PER_VECTOR = 1u;
// T in front of the segment, its own transmittance; D in front of it and behind it, see between.comp.
struct Known { float T, through, front, behind; };
Known[PER_VECTOR] unpack_known(uvec4 v) {
    vec4 k = uintBitsToFloat(v);
    return Known[PER_VECTOR](Known(k.x, k.y, k.z, k.w));
}
uvec4 pack_known(Known k[PER_VECTOR]) { return floatBitsToUint(vec4(k[0].T, k[0].through, k[0].front, k[0].behind)); }
