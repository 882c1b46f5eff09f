// <sink> of fits/image/sink.comp that writes the gradients out.
#include "contract/fit.glsl"
BUFFER_blobs(readonly)
BUFFER_d_blobs(writeonly)

void sink(uint i, uint at, float value, float d) { d_blobs[at] = d; }
