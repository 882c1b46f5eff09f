// Buckets: LANES neighbouring splats of a tile. Those of tile t start at a place that needs no scan, with at most one bucket a tile to spare:
// floor(end / L) + t + 1 - (floor(begin / L) + t) >= ceil((end - begin) / L).
uint first_bucket(uint tile) { return tile_starts[tile] / LANES + tile; }
