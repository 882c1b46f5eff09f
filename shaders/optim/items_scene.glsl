// <items> of optim/planes.comp: the scene, one item, which every step sees.
uint items_of(Plane plane) { return plane.items; }
bool visible(uint item, uint items) { return item < items; }
