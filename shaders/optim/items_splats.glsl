// <items> of optim/planes.comp: splats, seen where the projection found them visible.
BUFFER_counts(readonly)
BUFFER_seen(readonly)
uint items_of(Plane plane) { return counts.splats; }
bool visible(uint item, uint items) { return item < items && seen[item] != 0u; }
