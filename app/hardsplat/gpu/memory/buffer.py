"""Buffers, each with its own allocation; host copies through a staging buffer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import vulkan as vk

from hardsplat import contract
from hardsplat.base.errors import OutOfMemory
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.features import bits
from hardsplat.gpu.device.queue import once
from hardsplat.gpu.memory.allocation import POISON, Allocation, poisoned

_USES = "STORAGE_BUFFER UNIFORM_BUFFER INDIRECT_BUFFER TRANSFER_SRC TRANSFER_DST"
_USAGE = bits("VK_BUFFER_USAGE_{}_BIT", *_USES.split())
# VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT, core in Vulkan 1.2, but without a value in the package
_ADDRESS_USAGE = 0x20000
_OPAQUE_FD = vk.VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
STAGING_BYTES = 32 << 20
MOVERS = 4  # threads that move memory, and pieces of the staging buffer that they have


class Buffer:
    """`nbytes` of storage. host: mapped memory, `array(dtype)` views it; else it is device-local,
    and `upload` and `download` copy.

    addressed: shaders reach it by `address`, not by a descriptor, so it may be as large as one
    allocation. grows_with: see OutOfMemory; by default that of the contract. shared: `fd()` hands
    its memory to others; takes the capability `memory_fd`. within: another buffer in whose memory
    it lies from a byte on, instead of its own, see resources.py. Raises OutOfMemory.
    """

    def __init__(
        self,
        device: Device,
        nbytes: int,
        name: str,
        host: bool = False,
        addressed: bool = False,
        grows_with: str = "",
        shared: bool = False,
        within: tuple[Buffer, int] | None = None,
    ):
        if not grows_with and name in contract.BUFFERS:
            grows_with = contract.BUFFERS[name].grows_with
        unit = 16 if addressed else 4  # shaders go through planes in vec4s
        nbytes = max(16, -(-nbytes // unit) * unit)
        limit = device.max_allocation if addressed else device.max_buffer
        if nbytes > limit:
            size, most = nbytes / 2**20, f"{limit / 2**20:.0f} MiB in one"
            what = f"buffer {name} needs {size:.0f} MiB, {device.name} allows {most}"
            raise OutOfMemory(what, grows_with)
        self.device, self.nbytes, self.name, self.host = device, nbytes, name, host
        self.within = within
        external = vk.VkExternalMemoryBufferCreateInfo(handleTypes=_OPAQUE_FD) if shared else None
        usage = _USAGE | (_ADDRESS_USAGE if addressed else 0)
        self._allocation: Allocation = Allocation(
            device,
            "Buffer",
            name,
            host=host,
            addressed=addressed,
            shared=shared,
            pNext=external,
            size=nbytes,
            usage=usage,
            grows_with=grows_with,
            within=(within[0]._allocation, within[1]) if within else None,
        )
        self.handle, self.allocated = self._allocation.handle, self._allocation.nbytes
        self.fd = self._allocation.fd  # of a shared buffer, `allocated` bytes
        self._map: Any = self._mapped(self._allocation.memory) if host else None
        self.address = 0
        if addressed:  # raw cffi: the package throws the returned number away
            info = vk.VkBufferDeviceAddressInfo(buffer=self.handle)
            address = vk.lib.vkGetBufferDeviceAddress(device.handle, vk.ffi.addressof(info))
            self.address = int(address)
        device.label(vk.VK_OBJECT_TYPE_BUFFER, self.handle, name)
        if poisoned():
            self.fill(POISON)

    def _mapped(self, memory):
        """The host's view of the memory. It holds the device, which is closed where it is dropped:
        an array of it may live longer than the buffer's object."""
        view = vk.vkMapMemory(self.device.handle, memory, 0, self.nbytes, 0)
        held = vk.ffi.gc(vk.ffi.from_buffer(view), partial(_let_go, self.device))
        return vk.ffi.buffer(held, self.nbytes)

    def array(self, dtype=np.uint8) -> np.ndarray:
        """The mapped memory of a host buffer as a writable numpy array."""
        return np.frombuffer(self._map, np.uint8).view(dtype)

    def fill(self, word: int) -> None:
        """Every 32-bit word of the buffer := word, now."""
        if self.host:
            self.array(np.uint32)[:] = word
            return
        with once(self.device) as commands:
            vk.vkCmdFillBuffer(commands, self.handle, 0, self.nbytes, word)

    def upload(self, data: np.ndarray, offset: int = 0) -> None:
        """Copies a C-contiguous array to byte `offset`, now."""
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        if offset + raw.size > self.nbytes:
            what = f"{raw.size} bytes at {offset} do not fit in {self.name}"
            raise ValueError(f"{what} of {self.nbytes} bytes")
        if self.host:
            self.array()[offset : offset + raw.size] = raw
            return
        for start in range(0, raw.size, STAGING_BYTES):
            part, staging = raw[start : start + STAGING_BYTES], staging_of(self.device)
            staging.array()[: part.size] = part
            copy_bytes(staging, self, part.size, to=offset + start)

    def download(self, dtype=np.uint8, count: int | None = None, offset: int = 0) -> np.ndarray:
        """A copy of `count` elements (all by default) from byte `offset`, now."""
        dtype = np.dtype(dtype)
        size = self.nbytes - offset if count is None else count * dtype.itemsize
        out = np.empty(size // dtype.itemsize, dtype)
        self.copy_to(out, offset)
        return out

    def copy_to(self, out: np.ndarray, offset: int = 0) -> None:
        """Fills a C-contiguous array from byte `offset`, now."""
        raw = out.reshape(-1).view(np.uint8)
        if self.host:
            raw[:] = self.array()[offset : offset + raw.size]
            return
        for start in range(0, raw.size, STAGING_BYTES):
            part, staging = raw[start : start + STAGING_BYTES], staging_of(self.device)
            copy_bytes(self, staging, part.size, at=offset + start)
            part[:] = staging.array()[: part.size]

    def destroy(self) -> None:
        if self.handle is not None:
            self._allocation.free()
            self.handle = self._map = None


def _let_go(device: Device, memory) -> None:
    """Does nothing: that it was to be called is what held the device."""


def record_copy(
    commands, source: Buffer, target: Buffer, nbytes: int, at: int = 0, to: int = 0
) -> None:
    """Records the copy of bytes from byte `at` to byte `to`."""
    if nbytes:
        region = vk.VkBufferCopy(srcOffset=at, dstOffset=to, size=nbytes)
        vk.vkCmdCopyBuffer(commands, source.handle, target.handle, 1, [region])


def copy_bytes(source: Buffer, target: Buffer, nbytes: int, at: int = 0, to: int = 0) -> None:
    """Copies bytes on the device from byte `at` to byte `to`, now."""
    if nbytes:
        with once(source.device) as commands:
            record_copy(commands, source, target, nbytes, at, to)


def clear_all(buffers: Sequence[Buffer]) -> None:
    """Every byte of buffers on the device := 0, now."""
    if buffers:
        with once(buffers[0].device) as commands:
            for buffer in buffers:
                vk.vkCmdFillBuffer(commands, buffer.handle, 0, buffer.nbytes, 0)


def upload_all(copies: Iterable[tuple[Buffer, int, np.ndarray]]) -> None:
    """Copies each C-contiguous array to a byte of its buffer, now. Threads fill the staging buffer,
    most of the work, while what they filled before is on its way."""
    size = STAGING_BYTES // MOVERS
    filling: deque[tuple[Future[None], list[_Part], int]] = deque()

    def send() -> None:
        filled, parts, begin = filling.popleft()
        filled.result()
        device = parts[0].buffer.device
        with once(device) as commands:
            for part in parts:
                place, n = begin + part.place, part.raw.size
                record_copy(commands, staging_of(device), part.buffer, n, place, part.at)

    with ThreadPoolExecutor(MOVERS) as movers:
        for number, parts in enumerate(_pieces(copies, size)):
            if len(filling) == MOVERS:
                send()  # which frees a piece for this one
            begin = number % MOVERS * size
            piece = staging_of(parts[0].buffer.device).array()[begin:][:size]
            filling.append((movers.submit(_fill, piece, parts), parts, begin))
        while filling:
            send()


class _Part(NamedTuple):
    """Bytes on their way: `raw` goes to byte `place` of a piece of the staging buffer, then to byte
    `at` of `buffer`."""

    buffer: Buffer
    at: int
    raw: np.ndarray
    place: int


def _pieces(copies: Iterable[tuple[Buffer, int, np.ndarray]], size: int) -> Iterator[list[_Part]]:
    """Parts of all copies in order, in lists of `size` bytes together at most; their places begin
    at 0 in each list."""
    parts: list[_Part] = []
    used = 0
    for buffer, at, values in copies:
        raw = values.reshape(-1).view(np.uint8)
        done = 0
        while done < raw.size:
            if used == size:
                yield parts
                parts, used = [], 0
            part = raw[done : done + size - used]
            parts.append(_Part(buffer, at + done, part, used))
            done, used = done + part.size, used + part.size
    if parts:
        yield parts


def _fill(piece: np.ndarray, parts: Sequence[_Part]) -> None:
    for part in parts:
        piece[part.place :][: part.raw.size] = part.raw


class Download(NamedTuple):
    """What is to come from the beginning of a buffer: `nbytes`, which `put` makes `out` of, piece
    by piece: put(bytes of out, bytes that came), both uint8 and in the proportion of the whole."""

    buffer: Buffer
    out: np.ndarray
    nbytes: int
    put: Callable[[np.ndarray, np.ndarray], object] = np.copyto


def download_all(wanted: Iterable[Download]) -> None:
    """Fills C-contiguous arrays, now. Threads move what has come to the staging buffer, most of the
    work, while more comes."""
    size, moves = STAGING_BYTES // MOVERS, deque[Future[object]]()
    with ThreadPoolExecutor(MOVERS) as movers:
        number = 0
        for buffer, out, nbytes, put in wanted:
            raw, staging = out.reshape(-1).view(np.uint8), staging_of(buffer.device)
            wider = raw.size // nbytes if nbytes else 1
            for at in range(0, nbytes, size):
                n, place = min(size, nbytes - at), number % MOVERS * size
                if len(moves) == MOVERS:
                    moves.popleft().result()  # which frees a piece for this one
                copy_bytes(buffer, staging, n, at, place)
                part = raw[wider * at : wider * (at + n)]
                moves.append(movers.submit(put, part, staging.array()[place : place + n]))
                number += 1
        for move in moves:
            move.result()


def staging_of(device: Device) -> Buffer:
    """Host memory of STAGING_BYTES that copies go through, one for a device."""
    return device.shared("staging", lambda: Buffer(device, STAGING_BYTES, "staging", host=True))
