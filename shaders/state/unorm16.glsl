// <state> of a draw of blocks: pixels as 16-bit unorms, two in 16 bytes.
const uint PER_VECTOR = 2u;
vec4[PER_VECTOR] unpack_pixels(uvec4 v) {
    return vec4[PER_VECTOR](vec4(unpackUnorm2x16(v.x), unpackUnorm2x16(v.y)), vec4(unpackUnorm2x16(v.z), unpackUnorm2x16(v.w)));
}
uvec4 pack_pixels(vec4 p[PER_VECTOR]) {
    return uvec4(packUnorm2x16(p[0].rg), packUnorm2x16(p[0].ba), packUnorm2x16(p[1].rg), packUnorm2x16(p[1].ba));
}
