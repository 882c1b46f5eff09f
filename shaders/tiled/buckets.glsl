// Buckets: BUCKET neighbouring splats of a tile. Those of tile t start at a place that needs no
// scan, with at most one bucket a tile to spare: floor(end / B) + t + 1 - (floor(begin / B) + t) >=
// ceil((end - begin) / B).
#include "contract/core.glsl"
layout(constant_id = 6) const uint BUCKET = 512u;  // a multiple of LANES
// Checkpoints are stored for buckets that the forward pass reaches, as far as they fit, and not for
// the first of a tile; else every bucket has a place for its own.
layout(constant_id = 28) const bool ON_DEMAND = false;
const uint TILE_PIXELS = TILE * TILE;

uint first_bucket(uint tile) { return tile_starts[tile] / BUCKET + tile; }
