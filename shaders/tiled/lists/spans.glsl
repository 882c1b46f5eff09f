// The tiles that an ellipse touches, packed row by row in 16 bytes. x: the first row and its first
// column, 16 bits each, or ELLIPSE where the tiles do not fit. y, z, w: three rows each, 10 bits a
// row: SHIFTED and its first column less that of the row before, and how many tiles it has.
#include "tiled/grid.glsl"
const uint ELLIPSE = 0xFFFFFFFFu, MOST_ROWS = 9u, MOST_COLUMNS = 31u, SHIFTED = 16u;

// `tiles`: how many they are, whether they fit or not.
uvec4 span_of(Ellipse e, out uint tiles) {
    uvec2 rows = rows_of(e);
    uint first = 0u, x = 0u;
    uvec3 codes = uvec3(0u);
    bool fits = rows.y - rows.x <= MOST_ROWS;
    tiles = 0u;
    for (uint y = rows.x; y < rows.y; ++y) {
        uvec2 columns = columns_of(e, y);
        uint row = y - rows.x, count = columns.y - columns.x;
        if (row == 0u) first = x = columns.x;
        uint shift = SHIFTED + columns.x - x, code = (shift << 5u | count) << 10u * (row % 3u);
        fits = fits && count <= MOST_COLUMNS && shift < 2u * SHIFTED;
        codes |=
            uvec3(row < 3u ? code : 0u, row < 3u || row > 5u ? 0u : code, row < 6u ? 0u : code);
        tiles += count;
        x = columns.x;
    }
    return uvec4(fits ? rows.x << 16u | first : ELLIPSE, codes);
}

// Tile k of those of a span that is not ELLIPSE.
uint tile_in(uvec4 span, uint k) {
    uint x = span.x & 0xFFFFu, y = span.x >> 16u;
    for (uint row = 0u; row < MOST_ROWS; ++row) {
        uint code = (row < 3u   ? span.y
                     : row < 6u ? span.z
                                : span.w) >>
                    10u * (row % 3u),
             count = code & 31u;
        x += (code >> 5u & 31u) - SHIFTED;
        if (k < count) return min((y + row) * TILES_X + x + k, TILES - 1u);
        k -= count;
    }
    return TILES - 1u;
}
