"""The Python API: render Gaussians and get their gradients, numpy in and numpy out.

    from app.api import Renderer, Gaussians, Camera
    renderer = Renderer(format="float32")
    image, T = renderer.forward(gaussians, camera, background=(1, 1, 1))
    gradients = renderer.backward(d_image)          # of sum(d_image * image)
"""

from __future__ import annotations

import numpy as np

from app import contract
from app.camera import Camera
from app.errors import UserError
from app.gaussians import Gaussians
from app.gpu.context import Device
from app.gpu.probe import open_device
from app.gpu.recorder import Recorder
from app.raster import BACKENDS
from app.raster.parameters import FIELDS, Parameters, SplatBuffers

__all__ = ["Camera", "Gaussians", "Renderer"]


def camera_row(camera: Camera, photo: int = 0) -> np.ndarray:
    """The contract's Camera struct. photo: first uint of its photograph in `photos`."""
    row = np.zeros((), contract.dtype("Camera"))
    row["world_to_camera"] = camera.w2c[:3]
    row["position"] = camera.position
    row["focal"] = camera.K[0, 0], camera.K[1, 1]
    row["centre"] = camera.K[0, 2], camera.K[1, 2]
    row["size"] = camera.width, camera.height
    row["photo"] = photo
    return row


def frame_row(sh_degree: int, background, near_plane: float) -> np.ndarray:
    """The contract's Frame struct outside training."""
    row = np.zeros((), contract.dtype("Frame"))
    row["sh_degree"], row["background"], row["near_plane"] = sh_degree, background, near_plane
    return row


class Renderer:
    """Differentiable rendering on one Vulkan device.

    device: index, part of a name, None for the environment's HARDSPLAT_DEVICE or the best one, or an open Device.
    rasterizer and **options: see app/raster and app/variants, e.g. format, state_format, reduction, ordering, blending, hybrid_threshold.
    Buffers are kept between calls and grow when a larger scene or image comes. Raises UserError when the device cannot do what was asked.
    """

    def __init__(self, device: Device | str | int | None = None, rasterizer: str = "hardware", **options):
        self.device = device if isinstance(device, Device) else open_device(device)
        if rasterizer not in BACKENDS:
            raise UserError(f"rasterizer {rasterizer}: there is no such one; choose from {', '.join(BACKENDS)}")
        self._backend = BACKENDS[rasterizer]
        self._options = self._backend.options(**options)
        self._key: tuple | None = None
        self._rendered: tuple[Gaussians, Camera] | None = None

    def _fit(self, n: int, sh_planes: int, width: int, height: int) -> None:
        """Makes buffers and command buffers for this size, or keeps those there are."""
        capacity = max(n, 1)
        if self._key and self._key[0] >= capacity and self._key[1:] == (sh_planes, width, height):
            return
        self.close()
        self.parameters = Parameters(self.device, capacity, sh_planes)
        self._gradients = SplatBuffers(self.device, [f"d_{f}" for f in FIELDS], capacity, sh_planes)
        self.raster = self._backend.rasterizer(self.device, self.parameters, width, height, self._options, sink="store")
        self.resources = {**self.raster.resources, **self._gradients.resources}
        self._forward = Recorder(self.device, self.resources, timed=True)
        self.raster.record_forward(self._forward)
        self._backward = Recorder(self.device, self.resources, timed=True)
        self.raster.record_backward(self._backward)
        self._forward.end()
        self._backward.end()
        self._key = (capacity, sh_planes, width, height)

    def forward(
        self, gaussians: Gaussians, camera: Camera, sh_degree: int | None = None, background=(0.0, 0.0, 0.0), near: float = 0.01
    ) -> tuple[np.ndarray, np.ndarray]:
        """Renders one view.

        sh_degree: highest band used, default all that `gaussians` has. background: (3,) colour. near: splats nearer than this are culled, world units.
        Returns image (H, W, 3) float32 with the background in it, and T (H, W) float32, the transmittance left behind the last splat.
        """
        degree = gaussians.sh_degree if sh_degree is None else sh_degree
        if not 0 <= degree <= gaussians.sh_degree:
            raise ValueError(f"sh_degree {degree} is not in 0..{gaussians.sh_degree}, what these Gaussians have")
        self._fit(len(gaussians), gaussians.sh.shape[1], camera.width, camera.height)
        self.parameters.upload(gaussians)
        self.resources["camera"].upload(camera_row(camera))
        self.resources["frame"].upload(frame_row(degree, background, near))
        self._forward.run_once()
        self._rendered = (gaussians, camera)
        target = self.resources["target"].download()
        target = target.astype(np.float32) / (np.iinfo(target.dtype).max if target.dtype.kind == "u" else 1.0)
        T = target[..., 3]
        return target[..., :3] + T[..., None] * np.asarray(background, np.float32), T

    def backward(self, d_image: np.ndarray) -> dict[str, np.ndarray]:
        """Gradients of sum(d_image * image) for the last forward().

        d_image: (H, W, 3). Returns means (N, 3), quats (N, 4), scales (N, 3), opacities (N,), sh (N, K, 3): of the linear scales and of
        opacities in 0..1, as `Gaussians` holds them. Splats that were not visible have zeros.
        """
        if self._rendered is None:
            raise RuntimeError("backward() needs a forward() before it")
        gaussians, camera = self._rendered
        n = len(gaussians)
        d = np.zeros((camera.height, camera.width, 4), np.float32)
        d[..., :3] = d_image
        self.resources["d_image"].upload(d)
        self._backward.run_once()
        means, quats, log_scales, logits, sh = (self._gradients.read(f"d_{f}", n) for f in FIELDS)
        o = gaussians.opacities
        return {
            "means": means[0],
            "quats": quats[0],
            "scales": log_scales[0] / gaussians.scales,
            "opacities": logits[0, :, 0] / (o * (1 - o)),
            "sh": sh.transpose(1, 0, 2).copy(),
        }

    def times(self) -> dict[str, float]:
        """Milliseconds on the GPU by pass, of the last forward() and backward()."""
        return {**self._forward.times(), **(self._backward.times() if self._rendered else {})}

    def close(self) -> None:
        """Frees the GPU memory of the last size."""
        if self._key:
            self.device.wait_idle()
            self._forward.destroy()
            self._backward.destroy()
            self.raster.destroy()
            self.parameters.destroy()
            self._gradients.destroy()
            self._key = None
            self._rendered = None
