// <sink> of fit/sink.comp that takes an Adam step at once (Kingma & Ba 2015, algorithm 1). All rates fall as that of the means does.
BUFFER_hyper(readonly)
BUFFER_frame(readonly)
BUFFER_blobs(restrict)
BUFFER_adam_blobs(restrict)

float rate_of(uint i) {
    float first = i < 2u ? hyper.lr_means : i < 4u ? hyper.lr_scales : i == 4u ? hyper.lr_quats : i < 8u ? hyper.lr_sh0 : hyper.lr_opacities;
    return first * frame.lr_means / hyper.lr_means;
}

void sink(uint i, uint row, float value, float d) {
    uint second = BLOB * counts.capacity + row;
    float m = mix(d, adam_blobs[row], hyper.beta1), v = mix(d * d, adam_blobs[second], hyper.beta2);
    adam_blobs[row] = m;
    adam_blobs[second] = v;
    blobs[row] = value - rate_of(i) / frame.bias1 * m / (sqrt(v / frame.bias2) + hyper.eps);
}
