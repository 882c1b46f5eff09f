// <share>: a workgroup takes all pairs of its tile.
bool take_share() {
    tile = group_index() / PARTS;
    if (tile >= TILES) return false;
    begin = tile_starts[tile];
    end = tile_starts[tile + 1u];
    return true;
}
vec4 state_in_front(uint j) { return vec4(0.0, 0.0, 0.0, 1.0); }
