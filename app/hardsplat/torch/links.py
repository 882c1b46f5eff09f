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
from hardsplat.torch.pool import Lent, Pool


class _Downloaded:
    """Memory of the device for results. address: where shaders find it."""

    def __init__(self, buffer: Buffer, where: torch.device):
        self._buffer, self._where, self.address = buffer, where, buffer.address

    def tensor(self, shape: Sequence[int]) -> torch.Tensor:
        """A copy of what is there after a run, float32; may be called once."""
        values = self._buffer.download(np.float32, prod(shape)).reshape(shape)
        return torch.from_numpy(values).to(self._where)


class Link:
    """Copies by the host, for tensors of the CPU or of another GPU. lock: the thread that uses the
    link, or an engine on it, holds this."""

    def __init__(self, device: Device, where: torch.device):
        self.device, self._where, self.lock = device, where, threading.RLock()
        self._lent: dict[str, Buffer] = {}  # by name; each loan ends before the next of that name

    def buffer(self, nbytes: int, name: str, addressed: bool = False) -> Buffer:
        """One that `tensor` can show or, addressed, that `put` can fill."""
        return Buffer(self.device, nbytes, name, host=not addressed, addressed=addressed)

    def tensor(self, buffer: Buffer, shape: tuple[int, ...]) -> torch.Tensor:
        """Its first numbers, float32, in place."""
        return torch.from_numpy(buffer.array(np.float32)[: prod(shape)].reshape(shape))

    def put(self, buffer: Buffer, tensor: torch.Tensor) -> None:
        """Makes the first numbers of a buffer those of the tensor."""
        buffer.upload(tensor.cpu().numpy())

    def write(self, buffer: Buffer, raw: bytes) -> None:
        """Makes the first bytes of a buffer these; for small ones."""
        buffer.upload(np.frombuffer(raw, np.uint8))

    def address(self, tensor: torch.Tensor) -> int | None:
        """Where shaders find a tensor, if they can read it in place."""
        return None

    def lend(self, nbytes: int, name: str) -> _Downloaded | Lent:
        if (old := self._lent.get(name)) is None or old.nbytes < nbytes:
            if old is not None:
                self._lent.pop(name).destroy()
            self._lent[name] = Buffer(self.device, nbytes, name, addressed=True)
        return _Downloaded(self._lent[name], self._where)

    def shared(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of the numbers where `address` knows them, if there is such memory."""
        return tensor

    def enter(self) -> None:
        """Precedes writes to tensors of shared memory."""

    def run(self, *recorders: Recorder, watched: bool = False) -> None:
        """Runs commands after what tensors were given before, and before what is asked of them
        next. watched: `land` will be called."""
        complete(self.device, *recorders)

    def land(self) -> None:
        """Waits for the first recorder of the last run that was watched."""

    def settle(self) -> None:
        """Waits for both sides: before buffers are destroyed."""

    def close(self) -> None:
        for buffer in self._lent.values():
            buffer.destroy()
        self._lent.clear()


class Shared(Link):
    """Memory that both APIs map. Where the device exports semaphores, each side waits for the other
    on the GPU, and the host for neither."""

    def __init__(self, device: Device, peer: Cuda):
        super().__init__(device, peer.tensor_device)
        self.peer = peer
        # mappings, and all that is there
        self._seen: WeakKeyDictionary[Buffer, tuple[Any, torch.Tensor]] = WeakKeyDictionary()
        self._pool = Pool(device, peer)
        self._fence, self._flying = Fence(device), False
        self._semaphores: list[SharedSemaphore] = []
        self._submissions: dict[tuple, list[Submission]] = {}  # by what is run
        if "semaphore_fd" in device.capabilities:
            self._semaphores = [SharedSemaphore(device) for _ in range(2)]
            self._theirs = [peer.semaphore(semaphore.fd()) for semaphore in self._semaphores]

    def buffer(self, nbytes: int, name: str, addressed: bool = False) -> Buffer:
        return Buffer(self.device, nbytes, name, addressed=addressed, shared=True)

    def _mapped(self, buffer: Buffer) -> tuple[Any, torch.Tensor]:
        if buffer not in self._seen:
            mapping = self.peer.map(buffer.fd(), buffer.allocated)
            self._seen[buffer] = mapping, self.peer.tensor(mapping, buffer.nbytes // 4)
        return self._seen[buffer]

    def tensor(self, buffer: Buffer, shape: tuple[int, ...]) -> torch.Tensor:
        return self._mapped(buffer)[1][: prod(shape)].view(shape)

    def put(self, buffer: Buffer, tensor: torch.Tensor) -> None:
        self.tensor(buffer, tuple(tensor.shape)).copy_(tensor)

    def write(self, buffer: Buffer, raw: bytes) -> None:
        self.peer.write(self._mapped(buffer)[0], raw)

    def address(self, tensor: torch.Tensor) -> int | None:
        return self._pool.address(tensor)

    def lend(self, nbytes: int, name: str) -> Lent:
        self.enter()
        return self._pool.take(nbytes, name, self.settle)

    def shared(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.address(tensor) is not None:
            return tensor
        self.enter()
        lent = self._pool.take(4 * tensor.numel(), "shared tensor", self.settle, most=1.25)
        return lent.tensor(tensor.shape).copy_(tensor)

    def enter(self) -> None:
        self.peer.enter()

    def run(self, *recorders: Recorder, watched: bool = False) -> None:
        if not self._semaphores:
            self.peer.synchronize()
            complete(self.device, *recorders)
            return
        self.land()
        if (key := (watched, *recorders)) not in self._submissions:
            ours, back = (semaphore.handle for semaphore in self._semaphores)
            found = [Submission(self.device, recorders, signal=back, wait=ours)]
            if watched:
                found = [Submission(self.device, recorders[:1], wait=ours)]
                found.append(Submission(self.device, recorders[1:], signal=back))
            self._submissions[key] = found
        first, *rest = self._submissions[key]
        self.peer.signal(self._theirs[0])
        first.submit(self._fence if watched else None)
        self._flying = watched
        for submission in rest:
            submission.submit()
        self.peer.wait(self._theirs[1])

    def land(self) -> None:
        if self._flying:
            self._fence.wait(eager=True)
            self._fence.reset()
            self._flying = False

    def settle(self) -> None:
        self.land()
        self._submissions.clear()  # recorders may be destroyed next
        self.peer.synchronize()  # which waits for what the device was given, too
        self.device.wait_idle()

    def close(self) -> None:
        self.settle()
        self._pool.close()
        self._seen.clear()
        self.peer.close()
        self._fence.destroy()
        for semaphore in self._semaphores:
            semaphore.destroy()
