"""Links of tensors to the Vulkan device: copies by the host, or memory that both APIs see, which is
lent for numbers of tensors: shaders read and write it in place."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from math import prod
from typing import Any
from weakref import WeakKeyDictionary, finalize

import numpy as np
import torch

from hardsplat.base.errors import OutOfMemory, undone
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.queue import Fence, SharedSemaphore, Submission, complete
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
        with undone(self.buffer.destroy):
            self.mapping: Any = peer.map(self.buffer.fd(), self.buffer.allocated)
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


MOST_SUBMISSIONS = 256  # that are kept, each for slots in another order


class Link:
    """Copies by the host, for tensors of the CPU or of another GPU. lock: the thread that uses the
    link, or an engine on it, holds this."""

    def __init__(self, device: Device, where: torch.device, peer: Cuda | None = None):
        self.device, self.lock = device, threading.RLock()
        self.peer: Any = peer
        self.where = torch.device("cpu") if peer is None else where  # of what `tensor` shows
        self.pool, self.closed = Pool(device, peer, self.settle), False

    def buffer(self, nbytes: int, name: str) -> Buffer:
        """One that `tensor` can show."""
        return Buffer(self.device, nbytes, name, host=True)

    @torch.inference_mode(False)  # else no later call could write to it outside that mode
    def tensor(self, buffer: Buffer, shape: tuple[int, ...]) -> torch.Tensor:
        """Its first numbers, float32, in place."""
        return torch.from_numpy(buffer.array(np.float32)[: prod(shape)].reshape(shape))

    def write(self, buffer: Buffer, raw: bytes) -> None:
        """Makes the first bytes of a buffer these; for small ones."""
        buffer.upload(np.frombuffer(raw, np.uint8))

    def placed(self, tensors: Sequence[torch.Tensor]) -> tuple[list[int], list]:
        """Where shaders find numbers of float32 tensors, in place or in copies, and what must live
        as long as they look there."""
        found = [self.pool.address(t) for t in tensors]
        copied = [t for t, address in zip(tensors, found) if address is None]
        in_place = [t for t, address in zip(tensors, found) if address is not None]
        if not copied:
            return [address for address in found if address is not None], in_place
        self.enter()
        lent = self.pool.take([t.shape for t in copied], "copies of tensors", most=2.0)
        lent.put(copied)
        copies = iter(lent.addresses)
        return [next(copies) if at is None else at for at in found], [*in_place, lent]

    def shared(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of the numbers that `placed` finds in place, if there is such memory."""
        return tensor

    def enter(self) -> None:
        """Precedes writes to tensors of shared memory."""

    def run(self, *recorders: Recorder, watched: int = 0) -> None:
        """Runs commands after what tensors were given before, and before what is asked of them
        next. `land` waits for the first `watched` ones."""
        complete(self.device, *recorders)

    def land(self) -> None:
        """Waits for what is watched of the last run."""

    def settle(self) -> None:
        """Waits for both sides: before buffers are destroyed."""

    def close(self) -> None:
        self.settle()
        self.pool.close()
        self.closed = True


class Shared(Link):
    """Memory that both APIs map. Where the device exports semaphores, each side waits for the other
    on the GPU, and the host for neither."""

    def __init__(self, device: Device, peer: Cuda):
        super().__init__(device, peer.tensor_device, peer)
        # mappings, and all that is there
        self._seen: WeakKeyDictionary[Buffer, tuple[Any, torch.Tensor]] = WeakKeyDictionary()
        self._fence, self._flying = Fence(device), False
        self._semaphores: list[SharedSemaphore] = []
        self._submissions: dict[tuple, list[Submission]] = {}  # by what is run
        self._running = False  # within `run`; else it was interrupted
        if "semaphore_fd" in device.capabilities:
            self._make_semaphores()

    def _make_semaphores(self) -> None:
        self._semaphores = [SharedSemaphore(self.device) for _ in range(2)]
        self._theirs = [self.peer.semaphore(semaphore.fd()) for semaphore in self._semaphores]

    def buffer(self, nbytes: int, name: str) -> Buffer:
        return Buffer(self.device, nbytes, name, shared=True)

    def _mapped(self, buffer: Buffer) -> tuple[Any, torch.Tensor]:
        if buffer not in self._seen:
            mapping = self.peer.map(buffer.fd(), buffer.allocated)
            self._seen[buffer] = mapping, self.peer.tensor(mapping, buffer.nbytes // 4)
        return self._seen[buffer]

    @torch.inference_mode(False)
    def tensor(self, buffer: Buffer, shape: tuple[int, ...]) -> torch.Tensor:
        return self._mapped(buffer)[1][: prod(shape)].view(shape)

    def write(self, buffer: Buffer, raw: bytes) -> None:
        self.peer.write(self._mapped(buffer)[0], raw)

    def shared(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.pool.address(tensor) is not None:
            return tensor
        self.enter()
        lent = self.pool.take([tensor.shape], "shared tensor", most=1.25)
        lent.put([tensor])
        return lent.tensors()[0]

    def enter(self) -> None:
        self.peer.enter()

    def run(self, *recorders: Recorder, watched: int = 0) -> None:
        if not self._semaphores:
            self.peer.synchronize()
            complete(self.device, *recorders)
            return
        self.land()
        if self._running:
            self._renew()
        if (key := (watched, *recorders)) not in self._submissions:
            if len(self._submissions) >= MOST_SUBMISSIONS:
                self._submissions.clear()
            ours, back = (semaphore.handle for semaphore in self._semaphores)
            found = [Submission(self.device, recorders, signal=back, wait=ours)]
            if watched:
                found = [Submission(self.device, recorders[:watched], wait=ours)]
                found.append(Submission(self.device, recorders[watched:], signal=back))
            self._submissions[key] = found
        first, *rest = self._submissions[key]
        if watched:
            self._fence.reset()
        self._running = True
        self.peer.signal(self._theirs[0])
        first.submit(self._fence if watched else None)
        self._flying = watched > 0
        for submission in rest:
            submission.submit()
        self.peer.wait(self._theirs[1])
        self._running = False

    def _renew(self) -> None:
        """Makes semaphores again. An interrupt came between the two sides: one may have signalled
        what the other does not wait for, and every later wait would end too early."""
        self._flying = False
        self.settle()
        old = self._semaphores
        self._make_semaphores()
        for semaphore in old:
            semaphore.destroy()
        self._running = False

    def land(self) -> None:
        if self._flying:
            self._fence.wait(eager=True)
            self._flying = False

    def settle(self) -> None:
        self.land()
        self._submissions.clear()  # recorders may be destroyed next
        self.peer.synchronize()  # which waits for what the device was given, too
        self.device.wait_idle()

    def close(self) -> None:
        super().close()
        self._seen.clear()
        self.peer.close()
        self._fence.destroy()
        for semaphore in self._semaphores:
            semaphore.destroy()
