// Depth segments: the visible splats in SEGMENTS shares of nearly equal number, nearest first, each
// drawn to a canvas of its own; these lie one below the other. A splat's fragments then only wait
// for those of its own segment, whose neighbours in the draw are SEGMENTS apart.
layout(constant_id = 8) const uint SEGMENTS = 1u;

// Of a fragment so far below the top of its segment's canvas: it lies on that of another.
bool elsewhere(float y, float height) { return SEGMENTS > 1u && (y < 0.0 || y > height); }

uint segment_start(uint segment, uint splats) {
    return segment * (splats / SEGMENTS) + min(segment, splats % SEGMENTS);
}

uint segment_of(uint rank, uint splats) {
    uint share = splats / SEGMENTS, longer = splats % SEGMENTS;  // that many have one splat more
    return rank < longer * (share + 1u) ? rank / (share + 1u)
                                        : longer + (rank - longer * (share + 1u)) / share;
}
