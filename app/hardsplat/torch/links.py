"""Links of tensors to the Vulkan device: copies by the host, or memory that both APIs see."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import prod
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np
import torch

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.queue import Fence, SharedSemaphore, Submission, complete
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.torch.pool import Peer, Pool


class Loan(Protocol):
    """Memory of the device for results. address: where shaders find it."""

    address: int

    # what is there after a run, float32; may be called once
    def tensor(self, shape: Sequence[int]) -> torch.Tensor: ...


class Link(Protocol):
    """A link. lock: the thread that uses the link, or an engine on it, holds this."""

    device: Device
    lock: threading.RLock

    # one that `tensor` can show or, addressed, that `put` can fill
    def buffer(self, nbytes: int, name: str, addressed: bool = False) -> Buffer: ...
    # its first numbers, float32, in place
    def tensor(self, buffer: Buffer, shape: tuple[int, ...]) -> torch.Tensor: ...
    # its first numbers are those of the tensor from now on
    def put(self, buffer: Buffer, tensor: torch.Tensor) -> None: ...
    # its first bytes are these from now on; for small ones
    def write(self, buffer: Buffer, raw: bytes) -> None: ...
    # where shaders find a tensor, if they can read it in place
    def address(self, tensor: torch.Tensor) -> int | None: ...
    def lend(self, nbytes: int, name: str) -> Loan: ...
    # the same numbers where `address` knows them, if there is such memory
    def shared(self, tensor: torch.Tensor) -> torch.Tensor: ...
    def enter(self) -> None: ...  # before tensors of shared memory are written
    # what tensors were given before comes first, what they are asked for next comes after. watched:
    # `land` will be called
    def run(self, *recorders: Recorder, watched: bool = False) -> None: ...
    def land(self) -> None: ...  # waits for the first recorder of the last run that was watched
    def settle(self) -> None: ...  # waits for both sides: before buffers are destroyed
    def close(self) -> None: ...


class _Downloaded:
    """A Loan that is copied to the device of tensors."""

    def __init__(self, buffer: Buffer, where: torch.device):
        self._buffer, self._where, self.address = buffer, where, buffer.address

    def tensor(self, shape: Sequence[int]) -> torch.Tensor:
        values = self._buffer.download(np.float32, prod(shape)).reshape(shape)
        return torch.from_numpy(values).to(self._where)


class HostLink:
    """Copies by the host, for tensors of the CPU or of another GPU."""

    def __init__(self, device: Device, where: torch.device):
        self.device, self.where, self.lock = device, where, threading.RLock()
        self._lent: dict[str, Buffer] = {}  # by name; each loan ends before the next of that name

    def buffer(self, nbytes: int, name: str, addressed: bool = False) -> Buffer:
        return Buffer(self.device, nbytes, name, host=not addressed, addressed=addressed)

    def tensor(self, buffer: Buffer, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.from_numpy(buffer.array(np.float32)[: prod(shape)].reshape(shape))

    def put(self, buffer: Buffer, tensor: torch.Tensor) -> None:
        buffer.upload(tensor.cpu().numpy())

    def write(self, buffer: Buffer, raw: bytes) -> None:
        buffer.upload(np.frombuffer(raw, np.uint8))

    def address(self, tensor: torch.Tensor) -> int | None:
        return None

    def lend(self, nbytes: int, name: str) -> Loan:
        if name not in self._lent or self._lent[name].nbytes < nbytes:
            if name in self._lent:
                self._lent.pop(name).destroy()
            self._lent[name] = Buffer(self.device, nbytes, name, addressed=True)
        return _Downloaded(self._lent[name], self.where)

    def shared(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def enter(self) -> None:
        pass

    def run(self, *recorders: Recorder, watched: bool = False) -> None:
        complete(self.device, *recorders)

    def land(self) -> None:
        pass

    def settle(self) -> None:
        pass

    def close(self) -> None:
        for buffer in self._lent.values():
            buffer.destroy()
        self._lent.clear()


class Shared:
    """Memory that both APIs map. Where the device exports semaphores, each side waits for the other
    on the GPU, and the host for neither."""

    def __init__(self, device: Device, peer: Peer):
        self.device, self.peer, self.lock = device, peer, threading.RLock()
        # mappings, and all that is there
        self._seen: WeakKeyDictionary[Buffer, tuple[object, torch.Tensor]] = WeakKeyDictionary()
        self._pool = Pool(device, peer)
        self._fence, self._flying = Fence(device), False
        self._semaphores: list[SharedSemaphore] = []
        self._submissions: dict[tuple, list[Submission]] = {}  # by what is run
        if "semaphore_fd" in device.capabilities:
            self._semaphores = [SharedSemaphore(device) for _ in range(2)]
            self._theirs = [peer.semaphore(semaphore.fd()) for semaphore in self._semaphores]

    def buffer(self, nbytes: int, name: str, addressed: bool = False) -> Buffer:
        return Buffer(self.device, nbytes, name, addressed=addressed, shared=True)

    def _mapped(self, buffer: Buffer) -> tuple[object, torch.Tensor]:
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

    def lend(self, nbytes: int, name: str) -> Loan:
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
        parts = [recorders[:1], recorders[1:]] if watched else [recorders]
        key = watched, *recorders
        if key not in self._submissions:
            ours, back = (semaphore.handle for semaphore in self._semaphores)
            last = len(parts) - 1
            self._submissions[key] = [
                Submission(self.device, part, back if i == last else None, None if i else ours)
                for i, part in enumerate(parts)
            ]
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
