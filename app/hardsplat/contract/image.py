"""The rendered image and its gradient, which rasterizers and losses share."""

from hardsplat.contract.layout import ImageSpec, Subsystem

IMAGE = Subsystem(
    "image",
    "the rendered image and its gradient",
    images=(
        ImageSpec(40, "target", "rendered colour without background, premultiplied, and final transmittance in alpha"),
        ImageSpec(41, "d_image", "dL/d(rgb, unused); a draw of blocks has its product with the finished pixel in alpha"),
    ),
    uses=("core",),
)
