// Tiles by the logarithm of the number of their pairs, eight steps an octave, those with most
// first. The includer has tile_starts.
shared uint places[GROUP];

uint class_of(uint tile) {
    uint pairs = tile_starts[tile + 1u] - tile_starts[tile];
    // Exponent and three bits of the mantissa.
    return GROUP - 1u - min((floatBitsToUint(float(pairs + 1u)) >> 20u) - (127u << 3u), GROUP - 1u);
}
