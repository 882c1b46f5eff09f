"""hardsplat: 3D Gaussian Splatting trained through Vulkan's hardware rasterizer.

    import hardsplat
    result = hardsplat.train("scenes/garden", max_steps=7_000)
    image, T = hardsplat.Renderer().forward(result.gaussians, camera)

Names are imported when they are first used, so that `import hardsplat` is quick and needs no
Vulkan.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hardsplat.base.version import __version__

if TYPE_CHECKING:
    from hardsplat.base.errors import UserError
    from hardsplat.export.convert import convert
    from hardsplat.export.lod import lod
    from hardsplat.export.page import export
    from hardsplat.fit.api import fit
    from hardsplat.io.scenes.scene import Scene, load_scene
    from hardsplat.io.splats import is_antialiased, load_splats, save_splats
    from hardsplat.mesh.build import mesh
    from hardsplat.model.camera import Camera
    from hardsplat.model.gaussians import Gaussians
    from hardsplat.raster.renderer import Renderer
    from hardsplat.serve.watch import Server
    from hardsplat.train import load_result, train

__all__ = [
    "Camera",
    "Gaussians",
    "Renderer",
    "Scene",
    "Server",
    "UserError",
    "__version__",
    "convert",
    "export",
    "fit",
    "is_antialiased",
    "load_result",
    "load_scene",
    "load_splats",
    "lod",
    "mesh",
    "save_splats",
    "train",
]

_HOME = {  # public name -> its module
    "Camera": "model.camera",
    "Gaussians": "model.gaussians",
    "Renderer": "raster.renderer",
    "Scene": "io.scenes.scene",
    "Server": "serve.watch",
    "UserError": "base.errors",
    "convert": "export.convert",
    "is_antialiased": "io.splats",
    "load_result": "train",
    "load_scene": "io.scenes.scene",
    "load_splats": "io.splats",
    "lod": "export.lod",
    "save_splats": "io.splats",
}
_CALLABLE = ("export", "fit", "mesh", "train")  # packages that are functions too, see callables.py


def __getattr__(name: str) -> Any:
    if name in _CALLABLE:
        return import_module(f"hardsplat.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'hardsplat' has no attribute {name!r}")
    return getattr(import_module(f"hardsplat.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
