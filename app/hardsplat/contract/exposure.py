"""Exposure and colour of photographs: what the loss compares in the place of the rendered image."""

from hardsplat.contract.layout import BufferSpec, Constant, Subsystem

EXPOSURE = Subsystem(
    "exposure",
    "exposure and colour of photographs",
    constants={
        "EXPOSURE_SUMS": Constant(52, "uint", "numbers that a workgroup sums for the gradient of exposure at most, in whole rounds of shaders/photographs/exposure/sum_all.glsl"),
    },
    buffers=(
        BufferSpec(160, "exposure_sums", "float", ("pixel groups", 52), "gradients of exposure and colour, summed over a workgroup; row by row over the tiles of camera.size"),
    ),
    uses=("image",),
)
