// <state> of a draw of blocks: (D, T) of a pixel as floats, two pixels in 16 bytes.
const uint PER_VECTOR = 2u;
const float STATE_SCALE = 1.0, MOST_K = 1e30;
vec2[PER_VECTOR] unpack_pixels(uvec4 v) {
    return vec2[PER_VECTOR](uintBitsToFloat(v.xy), uintBitsToFloat(v.zw));
}
uvec4 pack_pixels(vec2 p[PER_VECTOR]) { return floatBitsToUint(vec4(p[0], p[1])); }
