// Tiles of the image whose terms a workgroup of the loss adds up, in loss_sums row by row.
#include "contract/loss.glsl"

uvec2 loss_tiles(uvec2 size) { return (size + LOSS_TILE - 1u) / LOSS_TILE; }
