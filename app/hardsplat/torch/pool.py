"""Memory of the Vulkan device that tensors live in: shaders read and write it in place."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from math import prod
from typing import Any
from weakref import finalize

import torch

from hardsplat.base.errors import OutOfMemory
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.torch.cuda import Cuda

_UNIT = 1 << 16  # bytes that sizes are rounded up to


class _Block:
    """An allocation that both APIs see."""

    def __init__(self, device: Device, peer: Cuda, nbytes: int, name: str):
        self.peer = peer
        self.buffer = Buffer(device, -(-nbytes // _UNIT) * _UNIT, name, addressed=True, shared=True)
        try:
            self.mapping: Any = peer.map(self.buffer.fd(), self.buffer.allocated)
        except BaseException:
            self.buffer.destroy()
            raise
        self.pointer, self.nbytes = peer.pointer(self.mapping), self.buffer.nbytes


class _Lease:
    """A token that lives while a block is in use."""


class Lent:
    """A block for one tensor: it is free again when the tensor is gone, or this object where no
    tensor was made of it."""

    def __init__(self, block: _Block, free: deque[_Block]):
        self._block, self._lease, self.address = block, _Lease(), block.buffer.address
        finalize(self._lease, free.append, block).atexit = False

    def tensor(self, shape: Sequence[int]) -> torch.Tensor:
        return self._block.peer.tensor(self._block.mapping, prod(shape), self._lease).view(shape)


class Pool:
    """Blocks that are lent. A tensor outlives the pool: then the block's memory goes with it."""

    def __init__(self, device: Device, peer: Cuda):
        self._device, self._peer = device, peer
        self._blocks: list[_Block] = []  # by pointer
        self._free: deque[_Block] = deque()  # finalizers of any thread append to it

    def take(
        self, nbytes: int, name: str, settle: Callable[[], None], most: float = float("inf")
    ) -> Lent:
        """At least so many bytes, in a block of at most `most` times as many, or in a new one.
        Raises OutOfMemory. settle: waits until nothing uses free blocks."""
        free = [self._free.popleft() for _ in range(len(self._free))]
        fitting = [block for block in free if nbytes <= block.nbytes <= max(most * nbytes, _UNIT)]
        found = min(fitting, key=lambda block: block.nbytes, default=None)
        too_small = [block for block in free if block.nbytes < nbytes] if found is None else []
        self._free.extend(block for block in free if block is not found and block not in too_small)
        if too_small:
            settle()
            self._drop(too_small)
        return Lent(found or self._new(nbytes, name, settle), self._free)

    def _new(self, nbytes: int, name: str, settle: Callable[[], None]) -> _Block:
        try:
            block = _Block(self._device, self._peer, nbytes, name)
        except OutOfMemory:
            settle()
            self._drop([self._free.popleft() for _ in range(len(self._free))])
            block = _Block(self._device, self._peer, nbytes, name)
        self._blocks.append(block)
        self._blocks.sort(key=lambda block: block.pointer)
        return block

    def _drop(self, blocks: Sequence[_Block]) -> None:
        for block in blocks:
            self._blocks.remove(block)
            block.buffer.destroy()

    def address(self, tensor: torch.Tensor) -> int | None:
        """Where shaders find a tensor's numbers; None where they do not lie in a block, one after
        the other."""
        at = bisect_right(self._blocks, tensor.data_ptr(), key=lambda block: block.pointer)
        if not at or not tensor.is_contiguous() or tensor.dtype != torch.float32:
            return None
        block = self._blocks[at - 1]
        offset = tensor.data_ptr() - block.pointer
        inside = offset + 4 * tensor.numel() <= block.nbytes
        return block.buffer.address + offset if inside else None

    def close(self) -> None:
        for block in self._blocks:
            block.buffer.destroy()
        self._blocks.clear()
        self._free.clear()
