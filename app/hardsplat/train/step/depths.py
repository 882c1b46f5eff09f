"""The loss of depth in a training step: disparities that are known, with the photographs on the
device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.step.photos import Photos

LAST = 0.01  # share of the weight that is left at max_steps
_LARGEST = 6e4  # that a float16 holds

DEPTH_PASS = ComputePass(
    "loss depth",
    "photographs/depth_loss.comp",
    reads=("target", "depth_settings", "disparities", "depth_shares", "camera", "frame"),
    writes=("d_image",),
)


def depth_settings(
    weight: float, steps: int, extent: float, falls: tuple[int, int] | None = None
) -> np.ndarray:
    """The contract's DepthSettings struct. weight: of the first step, which falls to LAST of it in
    so many steps. falls: steps from and to which it falls faster, to the same end, if it does."""
    first, last, until = weight, weight * LAST, steps
    if falls:
        # the curve of first and last that is at `now` after `since` steps
        since, until = falls
        now = weight * LAST ** (since / steps)
        first = now * (now / last) ** (since / (until - since))
    own = {"weight": first, "last": last, "until": until, "extent": extent}
    return contract.struct("DepthSettings", **own)


class Depths:
    """known: (H, W) of each training view, 1 / world units, 0 where it is not known. extent: of the
    scene, world units. Raises UserError where photographs are streamed."""

    def __init__(self, device: Device, known: Sequence[np.ndarray], extent: float, photos: Photos):
        if photos.streamed:
            raise UserError(
                "--depth-lambda needs the photographs on the device, where they do not fit: "
                "raise --data-factor"
            )
        self._photos = photos
        known = [np.minimum(k * np.float32(extent), _LARGEST).astype(np.float16) for k in known]
        sizes = {
            "disparities": -(-photos.pixels // 2) * 4,
            "depth_shares": len(known) * contract.itemsize("depth_shares"),
        }
        self.buffers = {name: Buffer(device, size, name) for name, size in sizes.items()}
        self._upload(known)

    def _upload(self, maps: Sequence[np.ndarray]) -> None:
        flat = np.zeros(self.buffers["disparities"].nbytes // 2, np.float16)
        for i, known in enumerate(maps):
            start = self._photos.place(0, i)
            flat[start : start + known.size] = known.reshape(-1)
        self.buffers["disparities"].upload(flat)
        counts = np.array([np.count_nonzero(known) for known in maps])
        self.buffers["depth_shares"].upload((1 / np.maximum(counts, 1)).astype(np.float32))
