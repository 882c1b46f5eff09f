// What the walks of an image fit share in which every tile looks at every blob: a pixel a lane, in
// tiles that are a rectangle in Morton order.
#include "contract/tiles.glsl"
#include "tiled/lanes.glsl"

layout(constant_id = 4) const uint TILES_X = 1u;
layout(constant_id = 5) const uint TILES_Y = 1u;
const uint TILES = TILES_X * TILES_Y;
layout(constant_id = 2) const uint TILE_PIXELS = 32u;  // of a tile, at least LANES
BUFFER_counts(readonly)
BUFFER_tile_splats(readonly)
BUFFER_tile_reaches(readonly)

const uint PER_LANE = 1u;  // pixels of a lane
uint tile;
void visit(uint i);  // entry i of tile_splats, at this lane's pixel
bool finished();     // whether that takes no more
vec4 mean_conic_of(uint i) { return tile_splats[i].mean_conic; }
vec4 conic_color_of(uint i) { return tile_splats[i].conic_color; }
float peak_of(uint i) { return tile_reaches[i].peak; }
uint target_of(uint i) { return tile_reaches[i].splat; }

uvec2 corner_of_tile() {
    return uvec2(tile % TILES_X, tile / TILES_X) * (morton(TILE_PIXELS - 1u) + 1u);
}
uvec2 first_pixel() {
    return corner_of_tile() +
           morton((gl_SubgroupID * LANES + gl_SubgroupInvocationID) % TILE_PIXELS);
}
uvec2 step_to(uint j) { return uvec2(0u); }

// Whether the ellipse alpha >= ALPHA_MIN of entry i holds a pixel centre of the tile, or comes
// close.
bool touches(uint i) {
    vec2 low = vec2(corner_of_tile()) + 0.5 - QUAD_MARGIN,
         high = low + vec2(morton(TILE_PIXELS - 1u)) + 2.0 * QUAD_MARGIN;
    vec4 m = mean_conic_of(i);
    return nearest(low - m.xy, high - m.xy, m.z, m.w, conic_color_of(i).x) <=
           tile_reaches[i].cutoff;
}
