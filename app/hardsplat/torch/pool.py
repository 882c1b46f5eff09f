"""Memory of the Vulkan device that tensors live in: shaders read and write it in place."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol
from weakref import finalize

import torch

from hardsplat.base.errors import OutOfMemory
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer

_UNIT = 1 << 16  # bytes that sizes are rounded up to


class Peer(Protocol):
    """Another API on the same GPU. A file descriptor that it is given is its own."""

    # memory of that descriptor, until the object and all tensors of it are gone
    def map(self, fd: int, nbytes: int) -> object: ...
    # where its first byte is, as `data_ptr` of tensors says it
    def pointer(self, mapping) -> int: ...
    # its first numbers, float32; keeps the lease as long as the memory is in use
    def tensor(self, mapping, numbers: int, lease: object = None) -> torch.Tensor: ...
    # its first bytes, in the order of what else is done with tensors
    def write(self, mapping, raw: bytes) -> None: ...
    def semaphore(self, fd: int) -> object: ...
    def enter(self) -> None: ...  # what the calling thread does next comes after what others did
    def signal(self, semaphore) -> None: ...  # once what tensors were given is there
    def wait(self, semaphore) -> None: ...  # before tensors are used again
    def synchronize(self) -> None: ...  # waits, on the host, for what tensors were given
    def close(self) -> None: ...


class _Block:
    """An allocation that both APIs see."""

    def __init__(self, device: Device, peer: Peer, nbytes: int, name: str):
        self.peer = peer
        self.buffer = Buffer(device, -(-nbytes // _UNIT) * _UNIT, name, addressed=True, shared=True)
        try:
            self.mapping: Any = peer.map(self.buffer.fd(), self.buffer.allocated)
        except BaseException:
            self.buffer.destroy()
            raise
        self.pointer = peer.pointer(self.mapping)

    @property
    def nbytes(self) -> int:
        return self.buffer.nbytes


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

    def __init__(self, device: Device, peer: Peer):
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
