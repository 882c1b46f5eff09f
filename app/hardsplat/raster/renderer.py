"""The Python API: render Gaussians and get their gradients, numpy in and numpy out.

    from hardsplat import Renderer, Gaussians, Camera
    renderer = Renderer(format="float32")
    image, T = renderer.forward(gaussians, camera, background=(1, 1, 1))
    gradients = renderer.backward(d_image)

The gradients are those of sum(d_image * image).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Unpack
from weakref import finalize

import numpy as np
from numpy.typing import ArrayLike

from hardsplat.base.errors import UserError, undone
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.resources import Owned
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.gpu.probe import open_device
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import OWN, SH_C0, Gaussians
from hardsplat.model.sky import Sky
from hardsplat.raster.backends import BACKENDS, rasterizer_named
from hardsplat.raster.core.frame import camera_data, finished, frame_data
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.sinks import STORE
from hardsplat.raster.core.sky import allocate_sums, gather_passes, record_gather
from hardsplat.settings.typed import RasterizerName, RasterizerOptions
from hardsplat.tables import quantities

__all__ = ["Camera", "Gaussians", "Renderer"]


def _through(d_parameter: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Gradient of a value from that of its trained parameter; zero where that is, whatever the
    slope."""
    out, moved = np.zeros_like(d_parameter), d_parameter != 0
    return np.divide(d_parameter, slope, out=out, where=moved, casting="unsafe")


def _dropped(device: Device, opened: bool, parts: Owned) -> None:
    """Frees what a Renderer had that nobody has any more, none of it in use."""
    if opened:
        device.drop()
    else:
        device.bury(parts)


class Renderer:
    """Differentiable rendering on one Vulkan device.

    device: index, part of a name, None for the environment's HARDSPLAT_DEVICE or the best one, or
    an open Device. rasterizer, options: see app/hardsplat/settings/typed.py. Buffers
    are kept between calls and grow when a larger scene or image comes. Raises UserError when the
    device cannot do what was asked.
    """

    def __init__(
        self,
        device: Device | str | int | None = None,
        rasterizer: RasterizerName = "hardware",
        **options: Unpack[RasterizerOptions],
    ):
        self._backend = BACKENDS[rasterizer_named(rasterizer)]
        known = self._backend.options.settings()
        if unknown := [name for name in options if name not in known]:
            names = ", ".join(known)
            raise UserError(f"{unknown[0]}: Renderer has no such option; there are {names}")
        # estimates only where they are named
        make: Any = self._backend.options
        self._options = make(**{"gradient": "analytic", **options})
        self.device = device if isinstance(device, Device) else open_device(device)
        self._opened = self.device is not device
        try:
            self._backend.resolve(self.device, self._options)
        except UserError:
            if self._opened:
                self.device.close()
            raise
        self._parts = Owned()
        # one that is dropped without close() frees what it has
        finalize(self, _dropped, self.device, self._opened, self._parts).atexit = False
        self._key: tuple | None = None
        # what the last forward() was given; whether it was a sequence of cameras
        self._rendered: tuple[Gaussians, list[Camera], bool] | None = None
        self._drawn: Camera | None = None  # whose forward pass is there for a backward pass
        self._differentiated = False  # whether there was a backward pass since the last forward()
        self._frame = frame_data(0, (0.0, 0.0, 0.0), 1.0)
        # splats that stay as they are; those of them that the device has
        self._kept: Gaussians | None = None
        self._uploaded: Gaussians | None = None

    def keep(self, gaussians: Gaussians | None) -> None:
        """Says that these splats stay as they are: forward() then brings them to the device once,
        and not for every view."""
        self._kept, self._uploaded = gaussians, None

    def _fit(
        self, gaussians: Gaussians, width: int, height: int, lens: str, texels: int = 0
    ) -> None:
        """Makes buffers and command buffers for these splats, this size, a variant of LENSES and a
        sky of so many texels, or keeps those there are."""
        capacity, sh_degree = max(len(gaussians), 1), gaussians.sh_degree
        key = (sh_degree, width, height, lens, texels)
        if self._key and self._key[0] >= capacity and self._key[1:] == key:
            return
        self._release()
        with undone(self._release):
            parameters = Parameters(
                self.device, capacity, sh_degree, gradients="all", items={"texel": texels}
            )
            self.parameters = self._parts.add(parameters)
            self._sums = {"sky_sums": allocate_sums(self.device, texels)} if texels else {}
            self._parts.add_all(self._sums.values())
            self._gather = build_all(self.device, gather_passes(lens)) if texels else {}
            make, options = self._backend, replace(self._options, lens=lens)
            raster = make(self.device, parameters, width, height, options, STORE)
            self.raster = self._parts.add(raster)
            self._record()
        self._key = (capacity, *key)

    def _record(self) -> None:
        self.resources = {**self.raster.resources, **self._sums}
        self._forward = self._parts.add(Recorder(self.device, self.resources, timed=True))
        self.raster.record_forward(self._forward)
        self._backward = self._parts.add(Recorder(self.device, self.resources, timed=True))
        if self._gather:
            width, height, texels = self.raster.width, self.raster.height, self.parameters.texels
            record_gather(self._backward, self._gather, width, height, texels)
        self.raster.record_backward(self._backward)
        self._forward.end()
        self._backward.end()

    def forward(
        self,
        gaussians: Gaussians,
        camera: Camera | Sequence[Camera],
        sh_degree: int | None = None,
        background: ArrayLike = (0.0, 0.0, 0.0),
        near: float = 0.01,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Renders one view, or several of one size.

        sh_degree: highest band used, default all that `gaussians` has. background: (3,) colour,
        where they have no sky, or (side, side, 3) colours of one, see Sky.of_colors.
        near: splats nearer than this are culled, world units. Returns image (H, W, 3) float32 with
        the background in it, and T (H, W) float32, the transmittance behind the last splat. For a
        sequence of C cameras these are (C, H, W, 3) and (C, H, W). Splats with a number that is
        not finite, or a quaternion of zeros, are not drawn. Raises ValueError for arguments of
        another shape or range, UserError when the device cannot do it (OutOfMemory: this size does
        not fit).
        """
        single = isinstance(camera, Camera)
        given = (camera,) if isinstance(camera, Camera) else camera
        cameras: list[Camera] = list(given) if isinstance(given, Sequence) else []
        if not (cameras and all(isinstance(c, Camera) for c in cameras)) or not isinstance(
            gaussians, Gaussians
        ):
            kinds = f"{type(gaussians).__name__} and {type(camera).__name__}"
            text = "forward() takes Gaussians, then a Camera or a sequence of them, got"
            raise ValueError(f"{text} {kinds}")
        if len(sizes := {(c.width, c.height) for c in cameras}) > 1:
            words = ", ".join(f"{w}x{h}" for w, h in sorted(sizes))
            raise ValueError(f"the cameras of one call must have one image size, got {words}")
        background, sky = np.asarray(background, np.float32), gaussians.sky
        if background.ndim == 3:
            sky = Sky.of_colors(background)
        background = np.zeros(3, np.float32) if sky else background
        if background.shape != (3,) or not np.isfinite(background).all():
            raise ValueError(f"background {background.tolist()} is not three finite numbers")
        if not 0 < near < np.inf:
            raise ValueError(f"near {near} is not a positive distance")
        degree = gaussians.sh_degree if sh_degree is None else sh_degree
        if degree not in range(gaussians.sh_degree + 1):
            raise ValueError(
                f"sh_degree {degree} is not in 0..{gaussians.sh_degree}, what these Gaussians have"
            )
        if self.device.handle is None:
            text = "this Renderer was closed, and with it the device that it had opened"
            raise RuntimeError(text)
        self._rendered, self._differentiated = None, False
        lens = "distorted" if any(c.distortion for c in cameras) else "pinhole"
        texels = 0 if sky is None else len(sky.texels)
        self._fit(gaussians, cameras[0].width, cameras[0].height, lens, texels)
        if gaussians is not self._uploaded:
            self._uploaded = None  # as long as an interrupt may leave some of both
            self.parameters.upload(gaussians)
            self._uploaded = gaussians if gaussians is self._kept else None
        if sky is not None:
            self.parameters.write("sky", sky.texels[None])
        self._frame = frame_data(degree, background, near, step=int(self._frame["step"]))
        self.resources["frame"].upload(self._frame)
        images = []
        for one in cameras:
            self._draw(one)
            images.append(finished(self.resources["target"].download(), background))
        self._rendered = (gaussians, cameras, single)
        if single:
            return images[0]
        return np.stack([image for image, _ in images]), np.stack([T for _, T in images])

    def _draw(self, camera: Camera) -> None:
        """The forward pass of one view."""
        self._drawn = None
        self.resources["camera"].upload(camera_data(camera))
        self._forward.run_once()
        with undone(self._release):  # an interrupt too: commands may name buffers that are gone
            if self.raster.reserve_pairs():
                for recorder in (self._forward, self._backward):
                    self._parts.drop(recorder)
                self._record()
                self._forward.run_once()
        self._drawn = camera

    def backward(self, d_image: np.ndarray) -> dict[str, np.ndarray]:
        """Gradients of sum(d_image * image) for the last forward(); may be called again with
        another d_image.

        d_image: (H, W, 3), or (C, H, W, 3) where forward() was given a sequence of C cameras;
        gradients are then summed over them. Returns means (N, 3), quats (N, 4), scales (N, 3),
        opacities (N,), sh (N, K, 3), of linear scales and of opacities in 0..1; of a sky also
        background (side, side, 3). Further quantities of the trained table are (planes, N, width),
        as they are trained.
        Splats that were not visible have zeros. Raises RuntimeError without a forward(), ValueError
        for a d_image of another shape.
        """
        if self._rendered is None:
            raise RuntimeError("backward() needs a forward() before it")
        gaussians, cameras, single = self._rendered
        d_image = np.asarray(d_image)
        shape = (cameras[0].height, cameras[0].width, 3)
        wanted = shape if single else (len(cameras), *shape)
        if d_image.shape != wanted:
            raise ValueError(f"d_image has shape {d_image.shape}, expected {wanted}")
        d_images = d_image[None] if single else d_image
        total: dict[str, np.ndarray] = {}
        for camera, d in reversed(list(zip(cameras, d_images))):  # the last one was drawn last
            for name, gradient in self._differentiate(camera, d, len(gaussians)).items():
                total[name] = total[name] + gradient if name in total else gradient
        logit = gaussians.logit_opacities.astype(np.float64)
        own: dict[str, np.ndarray] = {}
        if (d_sky := total.pop("sky", None)) is not None:
            side = round(d_sky.shape[1] ** 0.5)
            own["background"] = d_sky[0, :, :3].reshape(side, side, 3)
        slope = 1 / (2 + np.exp(logit) + np.exp(-logit))  # o (1 - o)
        return {
            "means": total["means"][0],
            "quats": total["quats"][0],
            "scales": _through(total["log_scales"][0], gaussians.scales),
            "opacities": _through(total["logit_opacities"][0, :, 0], slope),
            "sh": np.concatenate([total["sh0"], total["shN"]]).transpose(1, 0, 2).copy(),
            **{name: gradient for name, gradient in total.items() if name not in OWN},
            **own,
        }

    def contributions(self, weights: np.ndarray) -> np.ndarray:
        """(N, 3) float32: alpha times the transmittance in front, summed over the pixels of the
        last forward() of one camera with these weights (H, W, 3)."""
        if self._rendered is None:
            raise RuntimeError("contributions() needs a forward() before it")
        gaussians, (camera,), _ = self._rendered
        found = self._differentiate(camera, weights, len(gaussians), of=("sh0",))
        return found["sh0"][0] / np.float32(SH_C0)

    def _differentiate(
        self, camera: Camera, d_image: np.ndarray, n: int, of: Collection[str] = ()
    ) -> dict[str, np.ndarray]:
        """Gradients (planes, n, width) of the trained quantities for one view. of: of these alone,
        by name."""
        self._frame["step"] += 1
        self.resources["frame"].upload(self._frame)
        if self._drawn is not camera:  # the backward pass uses up what the forward leaves it
            self._draw(camera)
        # sums of a sky are in fixed point, see shaders/sky/units.glsl
        most = float(np.abs(d_image).max()) * d_image.size if self.parameters.texels else 0.0
        scale = 2.0 ** (5 - np.ceil(np.log2(most))) if 0 < most < np.inf else 1.0
        padded = np.concatenate([scale * d_image, np.zeros_like(d_image[..., :1])], axis=2)
        self.resources["d_image"].upload(padded)
        self._frame["step"] += 1
        self.resources["frame"].upload(self._frame)
        self._drawn = None
        self._backward.run_once()
        self._differentiated = True
        items = {q: n for q in quantities.of("splat") if not of or q.name in of}
        if (texels := self.parameters.texels) and not of:
            items[quantities.QUANTITIES["sky"]] = texels
        found = {q.name: self.parameters.read(q.d, k) for q, k in items.items()}
        return found if scale == 1 else {k: v / np.float32(scale) for k, v in found.items()}

    def times(self) -> dict[str, float]:
        """Milliseconds on the GPU by pass, of the last forward() and, if there was one since,
        backward(). Empty where the device has no clock."""
        forward = self._forward.times() if self._rendered else {}
        return forward | (self._backward.times() if self._differentiated else {})

    def close(self) -> None:
        """Frees the GPU memory, and the device where this Renderer opened it: then this was the
        end. `with Renderer(...) as r` calls it."""
        self._release()
        if self._opened:
            self.device.close()

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _release(self) -> None:
        self._parts.destroy()
        self._key = self._rendered = self._drawn = self._uploaded = None
