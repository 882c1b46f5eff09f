"""Exposure and colour of photographs: what stands between the rendered image and the loss."""

from hardsplat.contract.layout import BufferSpec, Constant, ImageSpec, Subsystem

EXPOSURE = Subsystem(
    "exposure",
    "exposure and colour of photographs",
    constants={
        "EXPOSURE_GROUPS": Constant(512, "uint", "workgroups that share the pixels of an image in the gradient of its exposure"),
        "EXPOSURE_SUMS": Constant(42, "uint", "numbers that a workgroup sums for it at most, in whole rounds of shaders/exposure/sum_all.glsl"),
    },
    buffers=(BufferSpec(160, "exposure_sums", "float", (512, 42), "gradients of exposure and colour, summed over the pixels of a workgroup"),),
    images=(ImageSpec(161, "exposed", "the rendered image over its background as its photograph was exposed; alpha 0"),),
    uses=("image",),
)
