// <share>: a workgroup takes a bucket of its tile's pairs, so that none works much longer than the
// others, however many pairs a tile has.
#include "tiled/bucket_state.glsl"

bool take_share() {
    tile = tile_of(group_index());
    if (tile == NO_TILE) return false;
    begin = tile_starts[tile] + (group_index() - first_bucket(tile)) * BUCKET;
    end = min(begin + BUCKET, tile_starts[tile + 1u]);
    return true;
}
vec4 state_in_front(uint j) { return state_before(tile, group_index(), pixel_index(j)); }
