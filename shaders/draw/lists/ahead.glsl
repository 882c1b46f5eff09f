// A sorted list of fragments. A fragment says which comes next and which rank its splat has, and the
// splat's numbers lie there: loads that wait for each other. So they are begun while others are
// worked on, the numbers one fragment ahead, the fragment two ahead.
struct Numbers {
    vec4 mean_conic, conic_color;
    float peak;
    uint splat;
};

Numbers here, coming;  // of this fragment, and of the next one
uint rank_here;        // NO_FRAGMENT behind the last fragment
uvec2 next, second;    // rank of the fragment one or two ahead, and what follows

uvec2 fragment_at(uint place) {
    if (place == NO_FRAGMENT) return uvec2(NO_FRAGMENT);
    return uvec2(fragments[place].rank, fragments[place].next);
}
Numbers numbers_at(uint rank) {
    if (rank == NO_FRAGMENT) rank = 0u;
    return Numbers(tile_splats[rank].mean_conic, tile_splats[rank].conic_color,
                   tile_reaches[rank].peak, tile_reaches[rank].splat);
}

void begin_list(uint first) {
    uvec2 at = fragment_at(first);
    next = fragment_at(at.y);
    rank_here = at.x;
    here = numbers_at(rank_here);
}

// Before `here` is used.
void look_ahead() {
    coming = numbers_at(next.x);
    second = fragment_at(next.y);
}

// After that. A list in order ends.
void go_on() {
    rank_here = next.x > rank_here ? next.x : NO_FRAGMENT;
    here = coming;
    next = second;
}
