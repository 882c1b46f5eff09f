// <state> of a draw of blocks: pixels as floats, one in 16 bytes.
const uint PER_VECTOR = 1u;
vec4[PER_VECTOR] unpack_pixels(uvec4 v) { return vec4[PER_VECTOR](uintBitsToFloat(v)); }
uvec4 pack_pixels(vec4 p[PER_VECTOR]) { return floatBitsToUint(p[0]); }
