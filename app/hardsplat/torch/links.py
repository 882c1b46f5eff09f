"""How tensors reach the Vulkan device and come back: copied by the host, or in memory that both APIs see."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Protocol

import numpy as np
import torch

from hardsplat.gpu.context import Device
from hardsplat.gpu.memory import Buffer
from hardsplat.gpu.queue import Fence, SharedSemaphore, complete, submit
from hardsplat.gpu.recorder import Recorder
from hardsplat.raster.parameters import Parameters
from hardsplat.trained import Quantity


class Link(Protocol):
    """shared: planes of Parameters must be allocated so."""

    device: Device
    shared: bool

    def buffer(self, nbytes: int, name: str) -> Buffer: ...  # one that `tensor` can show
    def tensor(self, buffer: Buffer, shape: tuple[int, ...]) -> torch.Tensor: ...  # its first numbers, float32, in place
    def put(self, parameters: Parameters, quantity: Quantity, planes: Sequence[torch.Tensor]) -> None: ...  # (n, width) each, for the first n items of the first planes
    def get(self, parameters: Parameters, quantity: Quantity, n: int) -> list[torch.Tensor]: ...  # its gradient, (n, width) a plane, until the next run
    def enter(self) -> None: ...  # before tensors of shared memory are written
    # what tensors were given before comes first, what they are asked for next comes after. wait_for_first: until the first recorder is done
    def run(self, *recorders: Recorder, wait_for_first: bool = False) -> None: ...
    def forget(self) -> None: ...  # before buffers that were shown, or planes that were put or got, are destroyed


class Copies:
    """For CPU tensors."""

    shared = False

    def __init__(self, device: Device):
        self.device = device

    def buffer(self, nbytes: int, name: str) -> Buffer:
        return Buffer(self.device, nbytes, name, host=True)

    def tensor(self, buffer: Buffer, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.from_numpy(buffer.array(np.float32)[: prod(shape)].reshape(shape))

    def put(self, parameters: Parameters, quantity: Quantity, planes: Sequence[torch.Tensor]) -> None:
        for buffer, plane in zip(parameters.buffers(quantity.name), planes):
            buffer.upload(plane.numpy())

    def get(self, parameters: Parameters, quantity: Quantity, n: int) -> list[torch.Tensor]:
        return list(torch.from_numpy(parameters.read(quantity.d, n)))

    def enter(self) -> None:
        pass

    def run(self, *recorders: Recorder, wait_for_first: bool = False) -> None:
        complete(self.device, *recorders)

    def forget(self) -> None:
        pass


class Peer(Protocol):
    """Another API on the same GPU. A file descriptor that it is given is its own."""

    def tensor(self, fd: int, nbytes: int) -> torch.Tensor: ...  # (nbytes // 4,) float32 in the memory of that descriptor
    def semaphore(self, fd: int) -> object: ...
    def enter(self) -> None: ...  # what the calling thread does next comes after what others did
    def signal(self, semaphore) -> None: ...  # once what tensors were given is there
    def wait(self, semaphore) -> None: ...  # before tensors are used again
    def synchronize(self) -> None: ...  # waits, on the host, for what tensors were given
    def free(self) -> None: ...  # memory that was imported: no tensor of it is used any more
    def close(self) -> None: ...


class Shared:
    """For tensors of an API that maps the device's own memory. Where the device exports semaphores, each side waits for the other on the GPU, and the host for neither."""

    shared = True

    def __init__(self, device: Device, peer: Peer):
        self.device, self.peer = device, peer
        self._seen: dict[int, tuple[Buffer, torch.Tensor]] = {}
        self._fence, self._flying = Fence(device), False
        self._semaphores = []
        if "semaphore_fd" in device.capabilities:
            self._semaphores = [SharedSemaphore(device) for _ in range(2)]
            self._theirs = [peer.semaphore(semaphore.fd()) for semaphore in self._semaphores]

    def buffer(self, nbytes: int, name: str) -> Buffer:
        return Buffer(self.device, nbytes, name, shared=True)

    def tensor(self, buffer: Buffer, shape: tuple[int, ...]) -> torch.Tensor:
        if id(buffer) not in self._seen:
            self._seen[id(buffer)] = buffer, self.peer.tensor(buffer.fd(), buffer.allocated)
        return self._seen[id(buffer)][1][: prod(shape)].view(shape)

    def put(self, parameters: Parameters, quantity: Quantity, planes: Sequence[torch.Tensor]) -> None:
        for buffer, plane in zip(parameters.buffers(quantity.name), planes):
            self.tensor(buffer, tuple(plane.shape)).copy_(plane)

    def get(self, parameters: Parameters, quantity: Quantity, n: int) -> list[torch.Tensor]:
        return [self.tensor(buffer, (n, quantity.width)) for buffer in parameters.buffers(quantity.d)]

    def enter(self) -> None:
        self.peer.enter()

    def run(self, *recorders: Recorder, wait_for_first: bool = False) -> None:
        if not self._semaphores:
            self.peer.synchronize()
            complete(self.device, *recorders)
            return
        self._settle()
        ours, back = (semaphore.handle for semaphore in self._semaphores)
        self.peer.signal(self._theirs[0])
        if wait_for_first:
            submit(self.device, recorders[:1], self._fence, wait=ours)
            self._flying = True
            submit(self.device, recorders[1:], signal=back)
        else:
            submit(self.device, recorders, wait=ours, signal=back)
        self.peer.wait(self._theirs[1])
        self._settle()

    def _settle(self) -> None:
        if self._flying:
            self._fence.wait()
            self._fence.reset()
            self._flying = False

    def forget(self) -> None:
        self._settle()
        self.peer.synchronize()  # which waits for what the device was given, too
        self.device.wait_idle()
        self._seen.clear()
        self.peer.free()

    def close(self) -> None:
        self.forget()
        self.peer.close()
        self._fence.destroy()
        for semaphore in self._semaphores:
            semaphore.destroy()
