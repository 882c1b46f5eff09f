// <items> of optim/planes.comp: cameras, of which a step sees one.
uint items_of(Plane plane) { return plane.items; }
bool visible(uint item, uint items) { return item == frame.camera; }
