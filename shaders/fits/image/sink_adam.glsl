// <sink> of fits/image/sink.comp that takes an Adam step at once.
#include "contract/fit.glsl"
BUFFER_frame(readonly)
#include "optim/adam.glsl"
BUFFER_rates(readonly)
BUFFER_blobs(restrict)
BUFFER_adam_blobs(restrict)

uint rate_of(uint i) {
    return i < 2u    ? RATE_CENTER
           : i < 4u  ? RATE_SCALES
           : i == 4u ? RATE_ANGLE
           : i < 8u  ? RATE_COLOR
                     : RATE_OPACITY;
}

void sink(uint i, uint at, float value, float d) {
    uint second = BLOB * counts.capacity + at;
    float m = adam_blobs[at], v = adam_blobs[second];
    adam(value, m, v, d, rates[rate_of(i)]);
    adam_blobs[at] = m;
    adam_blobs[second] = v;
    blobs[at] = value;
}
