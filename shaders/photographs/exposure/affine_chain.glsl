// <chain>: the sums are the gradients.
#include "photographs/exposure/vignette_chain.glsl"
GRADIENT_affine(writeonly)
void chain(Exposure e, float sums[EXPOSURE_SUMS]) {
    for (uint row = 0u; row < 3u; ++row)
        d_affine(row, frame.view) =
            vec4(sums[4u * row], sums[4u * row + 1u], sums[4u * row + 2u], sums[4u * row + 3u]);
    chain_vignette(sums, 12u, frame.camera);
}
