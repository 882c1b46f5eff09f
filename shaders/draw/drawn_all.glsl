// <drawn>: all visible splats, once each. The segments come one after the other from the back, or in turns from the front.
Drawn drawn_as(uint i) {
    uint segment = i % SEGMENTS, rank = segment_start(segment, counts.visible) + i / SEGMENTS;
    if (BACK_TO_FRONT) {
        rank = counts.visible - 1u - i;
        segment = segment_of(rank, counts.visible);
    }
    return Drawn(order[rank], rank, segment, 0u);
}

vec2 within(vec2 px, Drawn d) { return px; }
