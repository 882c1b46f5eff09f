// <span> of count.comp: here.
BUFFER_tile_spans(writeonly)
uint tiles_of_splat(uint rank, TileSplat packed, TileReach reach) {
    uint tiles;
    tile_spans[rank] = span_of(ellipse_of(packed, reach), tiles);
    return tiles;
}
