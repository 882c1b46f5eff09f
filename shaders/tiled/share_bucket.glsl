// <share>: a workgroup takes a bucket of its tile's pairs, so that none works much longer than the
// others, however many pairs a tile has. It also takes the buckets behind it that have no
// checkpoint.
#include "tiled/bucket_state.glsl"

bool is_first;  // of the tile's buckets

bool take_share() {
    uint bucket = group_index();
    tile = tile_of(bucket);
    if (tile == NO_TILE) return false;
    uint first = first_bucket(tile), behind = bucket + 1u;
    is_first = bucket == first;
    if (ON_DEMAND) {
        if (!is_first && bucket_tiles[bucket].y == NO_PLACE) return false;
        for (uint last = first_bucket(tile + 1u); behind < last; ++behind)
            if (bucket_tiles[behind] != uvec2(tile, NO_PLACE)) break;
    }
    begin = tile_starts[tile] + (bucket - first) * BUCKET;
    end = min(tile_starts[tile] + (behind - first) * BUCKET, tile_starts[tile + 1u]);
    return true;
}
vec4 state_in_front(uint j) {
    if (ON_DEMAND && is_first) return vec4(0.0, 0.0, 0.0, 1.0);
    return state_before(tile, group_index(), pixel_index(j));
}
