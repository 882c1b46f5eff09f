"""PyTorch's `rasterization` with gsplat's names, shapes and meaning, on any Vulkan device.

    from hardsplat.torch import rasterization
    colors, alphas, meta = rasterization(means, quats, scales, opacities, sh, viewmats, Ks, width,
        height, sh_degree=3)

CPU tensors are copied to the Vulkan device and back. CUDA tensors stay on their GPU where its
driver shares memory with Vulkan. Raises UserError without PyTorch.
"""

from hardsplat.base.errors import UserError

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise UserError("hardsplat.torch needs PyTorch: pip install 'hardsplat[torch]'") from error

from hardsplat.torch.engines import configure, shared
from hardsplat.torch.rasterize import rasterization

__all__ = ["configure", "rasterization", "shared"]
