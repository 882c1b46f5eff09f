// The tiles of the image, which may be smaller than the canvas, and which of them an ellipse alpha
// >= ALPHA_MIN touches: exactly, row by row (as AccuTile of Speedy-Splat, Hanson et al. 2025). A
// tile is the rectangle of its pixel centres. `precise`: the passes that count and emit must agree
// to the last bit.
#include "contract/tiles.glsl"
BUFFER_camera(readonly)
uint TILES_X = (camera.size.x + TILE - 1u) / TILE, TILES_Y = (camera.size.y + TILE - 1u) / TILE,
     TILES = TILES_X * TILES_Y;

struct Ellipse {
    precise vec2 mean;
    precise float A, k, c, cutoff;  // A (x + k y)^2 + c y^2 <= cutoff around the mean
};

Ellipse ellipse_of(TileSplat s, TileReach r) {
    return Ellipse(s.mean_conic.xy, s.mean_conic.z, s.mean_conic.w, s.conic_color.x, r.cutoff);
}

// First tile of a row or column of `count` tiles, and the first behind, that have pixel centres in
// [low, high].
uvec2 tiles_in(float low, float high, uint count) {
    precise float side = float(TILE);
    precise float first = ceil((low - QUAD_MARGIN + 0.5) / side - 1.0),
                  behind = floor((high + QUAD_MARGIN - 0.5) / side) + 1.0;
    uint from = uint(clamp(first, 0.0, float(count)));
    return uvec2(from, max(from, uint(clamp(behind, 0.0, float(count)))));
}

uvec2 rows_of(Ellipse e) {
    precise float reach = sqrt(e.cutoff / e.c);
    return tiles_in(e.mean.y - reach, e.mean.y + reach, TILES_Y);
}

// Tiles of one row. The right edge x(y) = -k y + sqrt((cutoff - c y^2) / A) is concave with its
// peak at y = xy sqrt(cutoff / xx), where xx, xy are entries of the covariance; the left edge is
// its mirror image.
uvec2 columns_of(Ellipse e, uint row) {
    precise float reach = sqrt(e.cutoff / e.c),
                  top = float(row * TILE) + 0.5 - QUAD_MARGIN - e.mean.y,
                  bottom = top + float(TILE - 1u) + 2.0 * QUAD_MARGIN;
    precise float low = clamp(top, -reach, reach), high = clamp(bottom, -reach, reach);
    precise float peak = -e.k / e.c * sqrt(e.cutoff / (1.0 / e.A + e.k * e.k / e.c));
    precise float right = clamp(peak, low, high), left = clamp(-peak, low, high);
    precise float x1 = sqrt(max(e.cutoff - e.c * right * right, 0.0) / e.A) - e.k * right;
    precise float x0 = -sqrt(max(e.cutoff - e.c * left * left, 0.0) / e.A) - e.k * left;
    return tiles_in(e.mean.x + x0, e.mean.x + x1, TILES_X);
}

// How many it touches.
uint tiles_of(Ellipse e) {
    uvec2 rows = rows_of(e);
    uint tiles = 0u;
    for (uint y = rows.x; y < rows.y; ++y) {
        uvec2 columns = columns_of(e, y);
        tiles += columns.y - columns.x;
    }
    return tiles;
}

// Tile k of those that it touches, row by row.
uint tile_at(Ellipse e, uint k) {
    uvec2 rows = rows_of(e);
    uint left = k, tile = 0u;
    for (uint y = rows.x; y < rows.y; ++y) {
        uvec2 columns = columns_of(e, y);
        tile = y * TILES_X + columns.x + left;
        if (left < columns.y - columns.x) break;
        left -= columns.y - columns.x;
    }
    // A number that is always one, also where a driver ignores `precise`.
    return min(tile, TILES - 1u);
}
