// <arrived>: for the tile of each pair, how many pairs its own and those behind them are; see
// order.comp.
#include "contract/tiles.glsl"
BUFFER_tile_starts(restrict)
void arrived(uint tile, uint place) { atomicMax(tile_starts[tile], counts.pairs - place); }
