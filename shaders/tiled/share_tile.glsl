// <share>: a workgroup takes all pairs of its tile.
#include "contract/tiles.glsl"
BUFFER_tile_order(readonly)

bool take_share() {
    if (group_index() >= TILES) return false;
    tile = tile_order[group_index()];
    begin = tile_starts[tile];
    end = tile_starts[tile + 1u];
    return true;
}
vec4 state_in_front(uint j) { return vec4(0.0, 0.0, 0.0, 1.0); }
