"""Memory of the Vulkan device that is lent for numbers of tensors: shaders read and write it in
place."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from math import prod
from typing import Any
from weakref import finalize

import numpy as np
import torch

from hardsplat.base.errors import OutOfMemory
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.torch.cuda import Cuda

_UNIT = 1 << 16  # bytes that sizes are rounded up to
_ALIGNED = 256  # bytes between the beginnings of two tensors of a block, a multiple


class _Block:
    """An allocation; with a peer, one that both APIs see. pointer: where tensors find it."""

    def __init__(self, device: Device, peer: Cuda | None, nbytes: int, name: str):
        size, shared = -(-nbytes // _UNIT) * _UNIT, peer is not None
        self.buffer = Buffer(device, size, name, addressed=True, shared=shared)
        self.peer, self.nbytes, self.pointer = peer, self.buffer.nbytes, 0
        if peer is None:
            return
        try:
            self.mapping: Any = peer.map(self.buffer.fd(), self.buffer.allocated)
        except BaseException:
            self.buffer.destroy()
            raise
        self.pointer = peer.pointer(self.mapping)


class _Lease:
    """A token that lives while a block is in use."""


class Lent:
    """A block for tensors of these shapes, float32: it is free again when this object and all
    tensors in place are gone. addresses: where shaders find each tensor."""

    def __init__(self, block: _Block, shapes: Sequence[Sequence[int]], free: deque[_Block]):
        self._block, self._shapes, self._lease = block, shapes, _Lease()
        ends = np.cumsum([rounded(shape) for shape in shapes]).tolist()
        self._starts = [0, *ends[:-1]]
        self.addresses = [block.buffer.address + start for start in self._starts]
        finalize(self._lease, free.append, block).atexit = False

    def tensors(self) -> list[torch.Tensor]:
        """In place where both APIs see the block; else copies of what is there now, on the CPU."""
        places = list(zip(self._starts, self._shapes))
        if self._block.peer is None:
            read = self._block.buffer.download
            each = [read(np.float32, prod(shape), at).reshape(shape) for at, shape in places]
            return [torch.from_numpy(values) for values in each]
        total = self._starts[-1] // 4 + prod(self._shapes[-1])
        flat = self._block.peer.tensor(self._block.mapping, total, self._lease)
        return [flat[at // 4 :][: prod(shape)].view(shape) for at, shape in places]

    def clear(self) -> None:
        """Makes its numbers 0."""
        if self._block.peer is not None:
            torch._foreach_zero_(self.tensors())
        else:
            self._block.buffer.fill(0)

    def put(self, tensors: Sequence[torch.Tensor]) -> None:
        """Makes its numbers those of the tensors."""
        if self._block.peer is not None:
            torch._foreach_copy_(self.tensors(), list(tensors))
            return
        for start, tensor in zip(self._starts, tensors):
            self._block.buffer.upload(tensor.cpu().numpy(), start)


def rounded(shape: Sequence[int]) -> int:
    """Bytes of a block that a tensor takes."""
    return -(-4 * prod(shape) // _ALIGNED) * _ALIGNED


class Pool:
    """Blocks that are lent. A tensor outlives the pool: then the block's memory goes with it.

    peer: who shares them, if anybody does. settle: waits until nothing uses free blocks.
    """

    def __init__(self, device: Device, peer: Cuda | None, settle: Callable[[], None]):
        self._device, self._peer, self._settle = device, peer, settle
        self._blocks: list[_Block] = []  # by pointer
        self._free: deque[_Block] = deque()  # finalizers of any thread append to it

    def take(self, shapes: Sequence[Sequence[int]], name: str, most: float = float("inf")) -> Lent:
        """Room for tensors of these shapes, in a block of at most `most` times the bytes, or in a
        new one. Raises OutOfMemory."""
        nbytes = max(sum(map(rounded, shapes)), 4)
        free = [self._free.popleft() for _ in range(len(self._free))]
        fitting = [block for block in free if nbytes <= block.nbytes <= max(most * nbytes, _UNIT)]
        found = min(fitting, key=lambda block: block.nbytes, default=None)
        too_small = [block for block in free if block.nbytes < nbytes] if found is None else []
        self._free.extend(block for block in free if block is not found and block not in too_small)
        if too_small:
            self._settle()
            self._drop(too_small)
        return Lent(found or self._new(nbytes, name), shapes, self._free)

    def _new(self, nbytes: int, name: str) -> _Block:
        try:
            block = _Block(self._device, self._peer, nbytes, name)
        except OutOfMemory:
            self._settle()
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
        if self._peer is None or not tensor.is_contiguous() or tensor.dtype != torch.float32:
            return None
        at = bisect_right(self._blocks, tensor.data_ptr(), key=lambda block: block.pointer)
        if not at:
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
