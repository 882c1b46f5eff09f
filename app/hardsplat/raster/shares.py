"""Shares of images that splats have, and splats that hide the view between photographs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import undone
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import Owned, allocate_all, destroy_all
from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.model.camera import Camera
from hardsplat.model.framing import spread
from hardsplat.raster.core.frame import camera_data, frame_data
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.rasterizer import Rasterizer
from hardsplat.raster.core.sinks import STORE
from hardsplat.raster.tiled.rasterizer import TiledRasterizer, first_runnable
from hardsplat.raster.tiled.rows import TiledOptions

WIDTH = 256  # px, at most, of images in which splats have shares
LONGEST, VIEWS = 40, 1000  # lines that are looked at, as many ends, and photographs; at most
# A splat hides the view if its share of an image between photographs is at least HIDES, and TIMES
# its share of all photographs together. Beyond the last photograph of a row the share must be at
# least HIDES_BEYOND: at their edges, images from there show things that hardly any photograph does.
HIDES, HIDES_BEYOND, TIMES = 1e-4, 1e-2, 3.0


def _share_pass(between: bool) -> ComputePass:
    reads, writes = ("counts", "seen", "d_splats2d", "shares"), ("d_splats2d", "shares")
    name = f"take shares{' between' * between}"
    return ComputePass(name, "picture/shares.comp", reads, writes, {"BETWEEN": between})


SHARE_PASSES = _share_pass(False), _share_pass(True)


def hiding(
    raster: Rasterizer,
    n: int,
    cameras: Sequence[Camera],
    near: float,
    others: Mapping[str, Buffer | Image] = {},
) -> np.ndarray:
    """(n,) float32: how much each splat hides the view between photographs, and beyond the last of
    a row. It does from 1 on.

    raster: draws these n splats, and has a backward draw. cameras: of the photographs. near: splats
    nearer than that are not drawn, world units. others: what the backward draw needs besides, see
    Sink. A splat's share of an image is the mean of its T alpha, which is what the mean of a colour
    changes by. Raises OutOfMemory.
    """
    # takes a third of a second
    from hardsplat.model.between import along, beyond, neighbours

    shares = Shares(raster, n, near, others)
    try:
        some = [cameras[i] for i in spread(len(cameras), VIEWS)]
        for camera in some:
            shares.add(camera, False)
        pairs = neighbours(some)
        for a, b in pairs[:LONGEST]:
            for camera in along(some[a], some[b]):
                shares.add(camera, True)
        shown, between = shares.read().T
        shares.clear()
        for camera in beyond(some, pairs, LONGEST):
            shares.add(camera, True)
        _, outside = shares.read().T
    finally:
        shares.destroy()
    shown = TIMES * len(cameras) / max(len(some), 1) * shown
    return np.maximum(between / np.maximum(shown, HIDES), outside / np.maximum(shown, HIDES_BEYOND))


def small_rasterizer(
    device: Device, splats: Parameters, camera: Camera, deterministic: bool = False
) -> TiledRasterizer:
    """One for `hiding`, with images of that camera's shape; it is the caller's. deterministic: it
    sums in a fixed order, which takes three times the memory. Raises OutOfMemory."""
    backward = "gather" if deterministic else "auto"
    options = first_runnable(device, TiledOptions(tile_backward=backward))
    return TiledRasterizer(device, splats, *_size(camera.width, camera.height), options, STORE)


def _size(width: int, height: int) -> tuple[int, int]:
    small = min(width, WIDTH)
    return small, max(round(height * small / width), 1)


class Shares:
    """What splats have of images: summed over photographs, and the most of one of other views. All
    are drawn as large and without distortion."""

    def __init__(
        self, raster: Rasterizer, n: int, near: float, others: Mapping[str, Buffer | Image] = {}
    ):
        self._raster, self._others, self._recorded = raster, others, Owned()
        self._size = _size(raster.width, raster.height)
        self._own = allocate_all(
            raster.device, contract.nbytes({"camera": 1, "frame": 1, "shares": max(n, 1)})
        )
        with undone(self.destroy):
            self._own["frame"].upload(frame_data(0, (0.0,) * 3, near))
            self.clear()
            self._record()
            first = self._recorded.add(Recorder(raster.device, self._resources))
            first.spoil("d_image", self._resources["d_image"], 1.0)
            first.end().run_once()

    def _record(self) -> None:
        self._recorded.destroy()
        device, raster = self._raster.device, self._raster
        self._resources = {**self._others, **raster.resources, **self._own}
        self._forward = self._recorded.add(Recorder(device, self._resources))
        raster.record_forward(self._forward)
        self._forward.end()
        self._takes = []
        for take in build_all(device, SHARE_PASSES).values():
            recorder = self._recorded.add(Recorder(device, self._resources))
            raster.record_draw_backward(recorder)
            recorder.run(take, indirect="splat_groups")
            self._takes.append(recorder.end())

    def clear(self) -> None:
        """Forgets all views."""
        self._own["shares"].fill(0)

    def add(self, camera: Camera, between: bool) -> None:
        """Draws one more view. between: else it is a photograph's."""
        bare = Camera(camera.w2c, camera.K, camera.width, camera.height)
        self._own["camera"].upload(camera_data(bare.resized(*self._size)))
        self._forward.run_once()
        if self._raster.reserve_pairs():
            self._record()
            self._forward.run_once()
        self._takes[between].run_once()

    def read(self) -> np.ndarray:
        """(n, 2) float32."""
        width, height = self._size
        sums = self._own["shares"].download(np.float32).reshape(-1, 2)
        return sums / np.float32(width * height)

    def destroy(self) -> None:
        self._recorded.destroy()
        destroy_all(self._own)
