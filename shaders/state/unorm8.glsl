// <state> of a draw of blocks: pixels as 8-bit unorms, four in 16 bytes.
const uint PER_VECTOR = 4u;
vec4[PER_VECTOR] unpack_pixels(uvec4 v) {
    return vec4[PER_VECTOR](unpackUnorm4x8(v.x), unpackUnorm4x8(v.y), unpackUnorm4x8(v.z), unpackUnorm4x8(v.w));
}
uvec4 pack_pixels(vec4 p[PER_VECTOR]) { return uvec4(packUnorm4x8(p[0]), packUnorm4x8(p[1]), packUnorm4x8(p[2]), packUnorm4x8(p[3])); }
