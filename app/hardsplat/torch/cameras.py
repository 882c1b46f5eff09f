"""Cameras of tensors for the device: made on the host, or by the GPU that has them, which the host
does not wait for."""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np
import torch
from torch import Tensor

from hardsplat.model.camera import Camera
from hardsplat.raster.core.frame import camera_data

# first numbers of the contract's Camera, which a tensor of cameras has: the pose, the position, the
# focal lengths and the centre
NUMBERS = 19


class CameraTensors:
    """The contract's Camera struct of each view. structs: their bytes. rows: (C, NUMBERS) float32
    of the GPU that go in front of them; None where they are in the structs. size: width, height.

    on_gpu: leave them there, if that is where they are. Raises ValueError for a camera that is
    none, or where it is on a GPU `check` does.
    """

    def __init__(self, viewmats: Tensor, Ks: Tensor, width: int, height: int, on_gpu: bool):
        self.size, self.rows, self._done = (width, height), None, None
        if on_gpu and viewmats.is_cuda:
            K = Ks.to(viewmats.device)
            flat = torch.cat([viewmats.flatten(1), K.flatten(1)], 1)
            self._flat = torch.empty(flat.shape, dtype=flat.dtype, pin_memory=True)
            self._flat.copy_(flat, non_blocking=True)
            self._done = torch.cuda.current_stream(viewmats.device).record_event()
            self.structs = [_struct(*_plain(), width, height)] * len(viewmats)
            self.rows = rows_of(viewmats, K)
        else:
            numbers = (t.detach().cpu().double().numpy() for t in (viewmats, Ks))
            each = ((w2c.tobytes(), K.tobytes()) for w2c, K in zip(*numbers))
            self.structs = [_struct(*camera, width, height) for camera in each]

    @property
    def known(self) -> bool:
        """Whether the host has their numbers."""
        return self._done is None or self._done.query()

    def check(self) -> None:
        """Raises ValueError for a camera on a GPU that is none. They must be known."""
        if self._done is not None:
            for row in self._flat.double().numpy():
                _struct(row[:16].tobytes(), row[16:].tobytes(), *self.size)


@lru_cache(4096, typed=True)
def _struct(w2c: bytes, K: bytes, width: int, height: int) -> bytes:
    """The struct of float64 matrices, which training shows repeatedly: checking them takes longer
    than all else that a camera needs."""
    pose, intrinsics = np.frombuffer(w2c).reshape(4, 4), np.frombuffer(K).reshape(3, 3)
    return camera_data(Camera(pose.copy(), intrinsics.copy(), width, height)).tobytes()


@cache
def _plain() -> tuple[bytes, bytes]:
    return np.eye(4).tobytes(), np.eye(3).tobytes()


def rows_of(viewmats: Tensor, K: Tensor) -> Tensor:
    """(C, NUMBERS) float32 of (C, 4, 4) and (C, 3, 3), where they are."""
    w2c, K = viewmats.double(), K.double()
    position = -(w2c[:, :3, :3] * w2c[:, :3, 3:]).sum(1)
    parts = w2c[:, :3].flatten(1), position, K[:, 0, :1], K[:, 1, 1:2], K[:, :2, 2]
    return torch.cat(parts, 1).float()
