// <list> of optim/planes.comp: the planes that this step moves.
#include "contract/train.glsl"
BUFFER_moved_planes(readonly)
uint listed_plane(uint i) { return moved_planes.at[i]; }
