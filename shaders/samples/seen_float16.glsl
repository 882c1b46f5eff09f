// <seen>: what samples of a pixel see in a depth segment, in halves: two samples in 16 bytes.
#define SEEN
const uint PER_VECTOR = 2u;
const float SCALE = 16.0;  // so that what is seen through a T of T_MIN is no denormal number, which a device may flush to 0
struct Seen { uint ranks[PER_VECTOR]; float values[PER_VECTOR], D, T, through; };

Seen unpack_seen(uvec4 v) {
    vec2 values = unpackHalf2x16(v.z) / SCALE, state = unpackHalf2x16(v.w) / SCALE;
    return Seen(uint[PER_VECTOR](v.x & NOTHING, v.y), float[PER_VECTOR](values.x, values.y), state.x, state.y, float(v.x >> RANK_BITS) / 255.0);
}

uvec4 pack_seen(Seen s) {
    uint through = uint(clamp(s.through, 0.0, 1.0) * 255.0);
    vec4 kept = clamp(SCALE * vec4(s.values[0], s.values[1], s.D, s.T), -65504.0, 65504.0);
    return uvec4(through << RANK_BITS | s.ranks[0], s.ranks[1], packHalf2x16(kept.xy), packHalf2x16(kept.zw));
}
