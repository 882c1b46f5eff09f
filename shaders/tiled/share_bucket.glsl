// <share>: a workgroup takes a bucket of its tile's pairs, so that none works much longer than the others however deep a tile is.
#include "tiled/bucket_state.glsl"

bool take_share() {
    uint bucket = group_index() / PARTS;
    if (bucket >= first_bucket(TILES)) return false;
    tile = tile_of(bucket);
    begin = tile_starts[tile] + (bucket - first_bucket(tile)) * BUCKET;
    end = min(begin + BUCKET, tile_starts[tile + 1u]);
    return begin < end;
}
vec4 state_in_front(uint j) { return state_before(tile, group_index() / PARTS, pixel_index(j)); }
