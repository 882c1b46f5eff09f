// <spans>: the tiles that a splat touches, for tiled/lists/count.comp.
#include "tiled/lists/spans.glsl"
#include "tiled/packed.glsl"
BUFFER_tile_spans(writeonly)
void keep_span(uint g, Splat2D s, vec4 color) {
    uint tiles;
    tile_spans[g] = span_of(
        ellipse_of(packed_splat(s, color), packed_reach(color.a, g, 0u)), tiles);
}
