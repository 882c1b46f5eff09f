// <span> of count.comp: the projection has made them.
BUFFER_tile_spans(readonly)
uint tiles_of_splat(uint rank, TileSplat packed, TileReach reach) {
    uvec4 span = tile_spans[reach.splat];
    return span.x == ELLIPSE ? tiles_of(ellipse_of(packed, reach)) : tiles_in(span);
}
