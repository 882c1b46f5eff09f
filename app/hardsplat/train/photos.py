"""Training photographs as the loss reads them: RGB8, or RGBA8 where one has alpha or a mask; on the GPU when they fit, else a ring in host memory that the GPU reads."""

from __future__ import annotations

import numpy as np

from hardsplat.errors import UserError
from hardsplat.gpu.context import Device
from hardsplat.gpu.memory import Buffer, upload_all

SHARE_OF_MEMORY = 0.4  # of the device, left to photographs before they are streamed


def pack(image: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8, or (H, W, 4) with premultiplied colour -> (H * W,) uint32, red in the low byte, alpha in the high one."""
    rgba = np.full((*image.shape[:2], 4), 255, np.uint8)
    rgba[..., : image.shape[2]] = image
    return rgba.view(np.uint32).reshape(-1)


class Photos:
    """images: as View.load() has them, sizes may differ. ring: steps that may be in flight at once. mode: auto, gpu or stream.

    `place(step, view)` gives the first pixel of a view's photograph in `buffer`; when streaming it writes the photograph there first,
    so the step that used the same place `ring` steps ago must be done.
    """

    def __init__(self, device: Device, images: list[np.ndarray], mode: str, ring: int):
        self.pixel_bytes = max(im.shape[2] for im in images)
        self._starts = np.cumsum([0] + [im.shape[0] * im.shape[1] for im in images])
        total = self._bytes(int(self._starts[-1]))
        fits = total <= device.max_buffer and total <= SHARE_OF_MEMORY * device.memory_bytes
        if mode == "gpu" and total > device.max_buffer:
            limit = device.max_buffer >> 20
            raise UserError(f"--images gpu: the photographs need {total >> 20} MiB, {device.name} allows {limit} MiB in one buffer; use --images stream")
        self.streamed = mode == "stream" or (mode == "auto" and not fits)
        if self.streamed:
            self._stride = max(im.shape[0] * im.shape[1] for im in images)
            self._ring = min(ring, device.max_buffer // self._bytes(self._stride))
            if self._ring < ring:
                raise UserError(f"{ring} photographs in flight do not fit in one buffer of {device.name}: lower --batch-steps to {self._ring // 2} or raise --data-factor")
            self.images = images
            self.buffer = Buffer(device, self._bytes(ring * self._stride), "photos", host=True)
        else:
            self.buffer = Buffer(device, total, "photos")
            self.show(images)

    @property
    def pixels(self) -> int:
        """Of all photographs at first."""
        return int(self._starts[-1])

    def _bytes(self, pixels: int) -> int:
        """In whole words, and one more: a pixel of three bytes is read from two."""
        return (pixels * self.pixel_bytes + 3) // 4 * 4 + 4

    def _words(self, image: np.ndarray) -> np.ndarray:
        return pack(image) if self.pixel_bytes == 4 else image.reshape(-1)

    def _upload(self, words: np.ndarray, pixel: int) -> None:
        self.buffer.upload(words, offset=pixel * self.pixel_bytes)

    def show(self, images: list[np.ndarray]) -> None:
        """Puts others, none larger than the one it replaces, in the place of these; no step may be in flight."""
        if self.streamed:
            self.images = images
            return
        upload_all((self.buffer, start * self.pixel_bytes, self._words(image)) for start, image in zip(self._starts.tolist(), images))

    def place(self, step: int, view: int) -> int:
        if not self.streamed:
            return int(self._starts[view])
        start = step % self._ring * self._stride
        self._upload(self._words(self.images[view]), start)
        return start
