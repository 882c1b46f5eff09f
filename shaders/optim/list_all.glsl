// <list> of optim/planes.comp: all planes of a kind.
layout(constant_id = 1) const uint FIRST_PLANE = 0u;
uint listed_plane(uint i) { return FIRST_PLANE + i; }
