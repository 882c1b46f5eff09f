"""Links of tensors to the Vulkan device: copies by the host, or memory that both APIs see."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.queue import Fence, SharedSemaphore, Submission, complete
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.torch.cuda import Cuda
from hardsplat.torch.pool import Pool

MOST_SUBMISSIONS = 256  # that are kept, each for slots in another order


class Link:
    """Copies by the host, for tensors of the CPU or of another GPU. lock: the thread that uses the
    link, or an engine on it, holds this."""

    def __init__(self, device: Device, where: torch.device, peer: Cuda | None = None):
        self.device, self.lock = device, threading.RLock()
        self.peer: Any = peer
        self.where = torch.device("cpu") if peer is None else where  # of what `tensor` shows
        self.pool = Pool(device, peer, self.settle)

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

    def address(self, tensor: torch.Tensor) -> int | None:
        """Where shaders find a tensor, if they can read it in place."""
        return self.pool.address(tensor)

    def placed(self, tensors: Sequence[torch.Tensor]) -> tuple[list[int], list]:
        """Where shaders find numbers of float32 tensors, in place or in copies, and what must live
        as long as they look there."""
        found = [self.address(t) for t in tensors]
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
        if self.address(tensor) is not None:
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
