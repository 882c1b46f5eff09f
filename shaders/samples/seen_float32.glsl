// <seen>: what samples of a pixel see in a depth segment, as floats: one sample in 16 bytes.
#define SEEN
const uint PER_VECTOR = 1u;
struct Seen { uint ranks[PER_VECTOR]; float values[PER_VECTOR], D, T, through; };

Seen unpack_seen(uvec4 v) {
    return Seen(uint[PER_VECTOR](v.x & NOTHING), float[PER_VECTOR](uintBitsToFloat(v.y)), uintBitsToFloat(v.z), uintBitsToFloat(v.w), float(v.x >> RANK_BITS) / 255.0);
}

uvec4 pack_seen(Seen s) {
    uint through = uint(clamp(s.through, 0.0, 1.0) * 255.0);
    return uvec4(through << RANK_BITS | s.ranks[0], floatBitsToUint(s.values[0]), floatBitsToUint(s.D), floatBitsToUint(s.T));
}
