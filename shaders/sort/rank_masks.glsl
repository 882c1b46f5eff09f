// <rank>: a segment is 32 threads, and those with the same digit are a bit mask for each digit:
// this needs no subgroups.
const uint SEGMENT = 32u;
// Keys of a segment by digit, then where the next of them goes.
shared uint places[GROUP / SEGMENT << BITS];
shared uint masks[GROUP / SEGMENT << BITS];   // lanes of the segment with this digit now

uint thread() { return gl_LocalInvocationID.x; }

void begin_ranks() {
    for (uint i = thread(); i < GROUP / SEGMENT << BITS; i += GROUP) places[i] = masks[i] = 0u;
    barrier();
}

uint in_segment(uint segment, uint digit, bool here) {
    uint i = segment << BITS | digit, own = 1u << (thread() & 31u);
    if (here) atomicOr(masks[i], own);
    barrier();
    uint alike = masks[i], earlier = places[i], before = bitCount(alike & (own - 1u));
    barrier();
    if (here && before == 0u) {
        places[i] = earlier + bitCount(alike);
        masks[i] = 0u;
    }
    barrier();
    return earlier + before;
}
