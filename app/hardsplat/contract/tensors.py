"""Images as tensors of other libraries have them."""

from hardsplat.contract.layout import BufferSpec, Subsystem

TENSORS = Subsystem(
    "tensors",
    "images as rows of numbers without gaps, in memory that other libraries read and write",
    buffers=(
        BufferSpec(180, "image_out", "float", (4, "pixels"), "of the camera's pixels: all colours without background, three a pixel, then all transmittances"),
        BufferSpec(181, "d_image_in", "float", (3, "pixels"), "of the camera's pixels: dL/d(rgb)"),
    ),
    uses=("image",),
)
