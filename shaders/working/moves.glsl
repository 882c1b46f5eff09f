// <moves>: the planes that this step moves.
#include "contract/train.glsl"
BUFFER_rates(readonly)
bool moves(uint p) { return rates[p] != 0.0; }
