"""Training photographs as the loss reads them: RGB8, or RGBA8 where one has alpha or a mask. All of
them are on the GPU, or all in host memory from where each step fetches its own, or a ring in host
memory has those of the next steps."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import MOVERS, Buffer, upload_all
from hardsplat.gpu.passes.declared import ComputePass

# workgroups that fetch a photograph: enough for the bus, few enough to leave the device to the pass
# beside them
FETCHERS = 64
BESIDE = "draw"  # the pass that a photograph is fetched beside: long enough, and before the loss
SHARE_OF_MEMORY = 0.4  # of the device, left to photographs before they are streamed


def pack(image: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8, or (H, W, 4) with premultiplied colour -> (H * W,) uint32, red in the low
    byte, alpha in the high one."""
    rgba = np.full((*image.shape[:2], 4), 255, np.uint8)
    rgba[..., : image.shape[2]] = image
    return rgba.view(np.uint32).reshape(-1)


def fetch_pass(photo_bytes: int) -> ComputePass:
    """photo_bytes: of a pixel."""
    return ComputePass(
        "fetch",
        "photographs/fetch.comp",
        reads=("schedule", "frame", "camera", "photographs"),
        writes=("photos",),
        spec={"PHOTO_BYTES": photo_bytes},
    )


def storage_of(
    device: Device, mode: str, nbytes: int, room: float, fetches: bool
) -> Literal["gpu", "host", "stream"]:
    """Where photographs of so many bytes are, by the mode that Photos is given. room: bytes that
    are left to them on the device. Raises UserError where the device cannot have them there."""
    in_one = nbytes <= device.max_buffer
    if mode == "auto" and fetches and in_one and device.physical.kind == "discrete GPU":
        return "host"
    if mode == "auto":
        return "gpu" if in_one and nbytes <= room else "stream"
    if mode == "stream":
        return "stream"
    if not in_one:
        raise UserError(
            f"--images {mode}: the photographs need {nbytes >> 20} MiB, {device.name} "
            f"allows {device.max_buffer >> 20} MiB in one buffer; use --images stream"
        )
    return "host" if mode == "host" and fetches else "gpu"


class Photos:
    """images: as View.load() has them, sizes may differ. ring: steps that may be in flight at once.
    mode: auto, gpu, host or stream. fetches: the steps have a fetch_pass, which `host` takes;
    without one that is `gpu`. auto: `host` where the device has memory of its own and a buffer
    holds all photographs, else by memory. most_steps: of a batch, two of which are in flight;
    fewer than half of the ring where a buffer of the device, or its free memory, holds fewer
    photographs.

    `place(step, view)` gives the first pixel of a view's photograph in `buffer`, or in
    `photographs` where it is fetched from there. When streaming it writes the photograph there
    first, so the step that used the same place `ring` steps ago must be done.
    """

    def __init__(
        self, device: Device, images: list[np.ndarray], mode: str, ring: int, fetches: bool = False
    ):
        self.images, self.pixel_bytes = images, max(im.shape[2] for im in images)
        pixels = [im.shape[0] * im.shape[1] for im in images]
        total, self._stride, self._ring = self._bytes(sum(pixels)), max(pixels), max(ring, 2)
        budget = device.memory_budget()  # less than its memory where other programs have some
        room = SHARE_OF_MEMORY * min(device.memory_bytes, budget.free if budget else math.inf)
        storage = storage_of(device, mode, total, room, fetches)
        self.fetched, self.streamed = storage == "host", storage == "stream"
        self._starts = np.cumsum([0, *(-(-n // 4) * 4 if self.fetched else n for n in pixels)])
        self._whole: Buffer | None = None
        if self.streamed:
            each = self._bytes(self._stride)
            self._ring = min(ring, device.max_buffer // each, max(int(room // each), 2))
            if self._ring < min(ring, 2):
                raise UserError(
                    f"two photographs do not fit in one buffer of {device.name}: raise "
                    "--data-factor"
                )
            total = self._bytes(self._ring * self._stride)
        elif self.fetched:
            self._whole = Buffer(device, self._bytes(self.pixels), "photographs", host=True)
            total = self._bytes(self._stride)
        self.most_steps = max((self._ring if self.streamed else ring) // 2, 1)
        try:
            self.buffer = Buffer(device, total, "photos", host=self.streamed)
        except OutOfMemory:
            if self._whole:
                self._whole.destroy()
            raise
        if not self.streamed:
            self._put(images)
            self.images = []

    @property
    def buffers(self) -> dict[str, Buffer]:
        """By contract name."""
        return {"photos": self.buffer, **({"photographs": self._whole} if self._whole else {})}

    @property
    def device_bytes(self) -> int:
        """What they take of the device's memory."""
        return sum(buffer.nbytes for buffer in self.buffers.values() if not buffer.host)

    @property
    def pixels(self) -> int:
        """Pixels that all photographs take."""
        return int(self._starts[-1])

    def _bytes(self, pixels: int) -> int:
        """In whole words, and one more: a pixel of three bytes is read from two."""
        return (pixels * self.pixel_bytes + 3) // 4 * 4 + 4

    def _words(self, image: np.ndarray) -> np.ndarray:
        return pack(image) if self.pixel_bytes == 4 else image.reshape(-1)

    def _upload(self, words: np.ndarray, pixel: int) -> None:
        (self._whole or self.buffer).upload(words, offset=pixel * self.pixel_bytes)

    def _put(self, images: list[np.ndarray]) -> None:
        """Puts all photographs where they stay."""
        if self._whole:
            with ThreadPoolExecutor(MOVERS) as copiers:
                list(copiers.map(self._upload, map(self._words, images), self._starts.tolist()))
        else:
            starts = (start * self.pixel_bytes for start in self._starts.tolist())
            upload_all((self.buffer, start, self._words(i)) for start, i in zip(starts, images))

    def destroy(self) -> None:
        """May be called again."""
        self.images = []  # those of a ring are as large as all others
        for buffer in self.buffers.values():
            buffer.destroy()

    def place(self, step: int, view: int) -> int:
        if not self.streamed:
            return int(self._starts[view])
        start = step % self._ring * self._stride
        self._upload(self._words(self.images[view]), start)
        return start
