"""The whole method in float64 numpy: the reference that the GPU code is tested against.

Written for reading, not speed, and independent of `hardsplat`: it imports nothing from there, so an
error cannot hide in shared code. N splats, K = (sh_degree + 1)^2 coefficients; world units for
means and scales, pixels for everything on the image, pixel centres at +0.5, OpenCV camera (+x
right, +y down, +z forward). The gradient of `x` is called `d_x`.
"""

from . import pictures
from .adam import adam_step
from .densify import densify
from .loss import l1_dssim, psnr, ssim
from .render import Frame, render
from .splat import Projection, project, project_backward

__all__ = [
    "Frame",
    "Projection",
    "adam_step",
    "densify",
    "l1_dssim",
    "pictures",
    "project",
    "project_backward",
    "psnr",
    "render",
    "ssim",
]
