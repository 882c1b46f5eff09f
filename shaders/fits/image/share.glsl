// <share>: as many tiles a workgroup as it has pixels for. Nothing lies before them, and nothing is
// kept.
bool take_share() {
    tile = group_index() * (gl_WorkGroupSize.x / TILE_PIXELS) + gl_SubgroupID * LANES / TILE_PIXELS;
    return tile < TILES;
}
vec4 state_in_front(uint j) { return vec4(0.0, 0.0, 0.0, 1.0); }
