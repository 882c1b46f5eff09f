// <state> of a draw of blocks: (D, T) of a pixel as half floats, four pixels in 16 bytes. Also for
// unorm formats: D has a sign, and even steps over -1..1 are coarser than a half where D is small,
// which is nearly everywhere.
const uint PER_VECTOR = 4u;
// A factor of what is stored, so that T of T_MIN and the D that goes with it are no denormal
// numbers, which a device may flush to 0.
const float STATE_SCALE = 16.0;
const float MOST_K = 2000.0;      // of k and D, so that their sums stay within a half
vec2[PER_VECTOR] unpack_pixels(uvec4 v) {
    return vec2[PER_VECTOR](unpackHalf2x16(v.x), unpackHalf2x16(v.y), unpackHalf2x16(v.z),
                            unpackHalf2x16(v.w));
}
uvec4 pack_pixels(vec2 p[PER_VECTOR]) {
    return uvec4(packHalf2x16(p[0]), packHalf2x16(p[1]), packHalf2x16(p[2]), packHalf2x16(p[3]));
}
