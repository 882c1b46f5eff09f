"""Images between the device and tensors of other libraries: `image_out` and `d_image_in` of the
contract, tensors.py."""

from __future__ import annotations

from hardsplat.gpu.passes.declared import ComputePass

IMAGE_OUT = ComputePass(
    "image out", "picture/image_out.comp", reads=("target", "camera"), writes=("image_out",)
)
D_IMAGE_IN = ComputePass(
    "d_image in",
    "picture/d_image_in.comp",
    reads=("d_image_in", "camera", "target"),
    writes=("d_image",),
)
PASSES = (IMAGE_OUT, D_IMAGE_IN)
