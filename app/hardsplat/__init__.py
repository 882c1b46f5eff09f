"""hardsplat: 3D Gaussian Splatting trained through Vulkan's hardware rasterizer.

    from hardsplat import Renderer, Gaussians, Camera

Names are imported when they are first used, so that `import hardsplat` is quick and needs no Vulkan.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardsplat.api import Renderer
    from hardsplat.camera import Camera
    from hardsplat.errors import UserError
    from hardsplat.gaussians import Gaussians

__version__ = "0.1.0"
__all__ = ["Camera", "Gaussians", "Renderer", "UserError", "__version__"]

_HOME = {"Renderer": "api", "Camera": "camera", "UserError": "errors", "Gaussians": "gaussians"}  # public name -> its module


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hardsplat' has no attribute {name!r}")
    return getattr(import_module(f"hardsplat.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
