// <claim>: a place for a fragment.
uint claim(bool wanted) { return wanted ? atomicAdd(counts.pairs_wanted, 1u) : 0u; }
