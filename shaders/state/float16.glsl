// <state> of a draw of blocks: pixels as half floats, two in 16 bytes.
const uint PER_VECTOR = 2u;
vec4[PER_VECTOR] unpack_pixels(uvec4 v) {
    return vec4[PER_VECTOR](vec4(unpackHalf2x16(v.x), unpackHalf2x16(v.y)), vec4(unpackHalf2x16(v.z), unpackHalf2x16(v.w)));
}
uvec4 pack_pixels(vec4 p[PER_VECTOR]) {
    return uvec4(packHalf2x16(p[0].rg), packHalf2x16(p[0].ba), packHalf2x16(p[1].rg), packHalf2x16(p[1].ba));
}
