"""CUDA's driver as the peer of a Vulkan device, which exports memory and semaphores: another API on
the same GPU. A file descriptor that it is given is its own."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from ctypes import c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from functools import partial
from weakref import finalize

import torch

from hardsplat.base.errors import UserError
from hardsplat.gpu.device import capabilities
from hardsplat.gpu.device.instance import Instance

_OPAQUE_FD = 1  # of CUexternalMemoryHandleType and CUexternalSemaphoreHandleType


class _Handle(ctypes.Union):
    _fields_ = [("fd", c_int), ("win32", c_void_p * 2)]


_FLAGS, _RESERVED = ("flags", c_uint), ("reserved", c_uint * 16)


class _MemoryDesc(ctypes.Structure):  # CUDA_EXTERNAL_MEMORY_HANDLE_DESC
    _fields_ = [("type", c_int), ("handle", _Handle), ("size", c_ulonglong), _FLAGS, _RESERVED]


class _BufferDesc(ctypes.Structure):  # CUDA_EXTERNAL_MEMORY_BUFFER_DESC
    _fields_ = [("offset", c_ulonglong), ("size", c_ulonglong), _FLAGS, _RESERVED]


class _SemaphoreDesc(ctypes.Structure):  # CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC
    _fields_ = [("type", c_int), ("handle", _Handle), _FLAGS, _RESERVED]


# CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS and ..._WAIT_PARAMS, which a binary semaphore leaves zero
class _SemaphoreParams(ctypes.Structure):
    _fields_ = [("params", c_uint * 18), _FLAGS, _RESERVED, ("more", c_uint)]


def _raw_stream(index: int) -> int:
    return torch.cuda.current_stream(index).cuda_stream


# the same in a tenth of the time, where PyTorch has it
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", _raw_stream)
_PLAIN, _ONE = ctypes.byref(_SemaphoreParams()), c_uint(1)


class _Mapping:
    """Imported memory, which is freed when the last tensor in it is gone."""

    def __init__(self, address: int, free: Callable[[], None]):
        self.address = address
        finalize(self, free).atexit = False


class _Array:
    """Memory that PyTorch takes by `__cuda_array_interface__`, and what must live as long."""

    def __init__(self, mapping: _Mapping, numbers: int, lease: object):
        self.mapping, self.lease = mapping, lease
        kind = {"shape": (numbers,), "typestr": "<f4", "strides": None, "version": 3}
        self.__cuda_array_interface__ = {**kind, "data": (mapping.address, False)}


def vulkan_index(uuid: bytes) -> int | None:
    """The number, as --device takes it, of the Vulkan device with that UUID, or None."""
    with Instance("") as instance:
        found = [capabilities.uuid(p.handle) for p in instance.physical_devices()]
    return found.index(uuid) if uuid in found else None


def _free(cuda, context: c_void_p, memory: c_void_p, address: c_ulonglong) -> None:
    """Frees memory, in any thread, where the last tensor of it ends."""
    if cuda.cuCtxPushCurrent_v2(context):
        return  # CUDA has ended, and with it the memory
    cuda.cuMemFree_v2(address)
    cuda.cuDestroyExternalMemory(memory)
    cuda.cuCtxPopCurrent_v2(ctypes.byref(c_void_p()))


class Cuda:
    """The driver for tensors of one device. Raises UserError where it refuses."""

    def __init__(self, where: torch.device):
        torch.zeros(1, device=where)  # PyTorch makes its context, which is the one of every call
        self.tensor_device = where
        self._index = torch.cuda.current_device() if where.index is None else where.index
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._semaphores: list[c_void_p] = []
        self._streams: dict[int, torch.cuda.Stream] = {}  # that had the memory
        self._threads, self._context = threading.local(), c_void_p()
        device, raw = c_int(), (ctypes.c_ubyte * 16)()
        self._call("cuCtxGetDevice", ctypes.byref(device))
        self._call("cuDeviceGetUuid", raw, device)
        self.uuid = bytes(raw)
        self._call("cuCtxGetCurrent", ctypes.byref(self._context))

    def _call(self, name: str, *arguments) -> None:
        if torch.cuda.current_device() == self._index:
            # PyTorch's own threads have no context before their first kernel
            if self._context and not getattr(self._threads, "entered", False):
                self._cuda.cuCtxSetCurrent(self._context)
                self._threads.entered = True
            result = getattr(self._cuda, name)(*arguments)
        else:
            with torch.cuda.device(self._index):
                result = getattr(self._cuda, name)(*arguments)
        if result:
            text = ctypes.c_char_p(b"unknown")
            self._cuda.cuGetErrorName(result, ctypes.byref(text))
            why = (text.value or b"unknown").decode()
            raise UserError(f"{name} failed: {why} ({result}); use CPU tensors")

    def map(self, fd: int, nbytes: int) -> _Mapping:
        """Memory of that descriptor, until the object and all tensors of it are gone."""
        memory, address = c_void_p(), c_ulonglong()
        desc = _MemoryDesc(type=_OPAQUE_FD, handle=_Handle(fd=fd), size=nbytes)
        self._call("cuImportExternalMemory", ctypes.byref(memory), ctypes.byref(desc))
        whole = ctypes.byref(_BufferDesc(size=nbytes))
        self._call("cuExternalMemoryGetMappedBuffer", ctypes.byref(address), memory, whole)
        return _Mapping(address.value, partial(_free, self._cuda, self._context, memory, address))

    def pointer(self, mapping: _Mapping) -> int:
        """Where its first byte is, as `data_ptr` of tensors reports it."""
        return mapping.address

    def tensor(self, mapping: _Mapping, numbers: int, lease: object = None) -> torch.Tensor:
        """Its first numbers, float32; keeps the lease as long as the memory is in use."""
        device = torch.device("cuda", self._index)
        if not numbers:
            return torch.empty(0, device=device)
        return torch.as_tensor(_Array(mapping, numbers, lease), device=device)

    def write(self, mapping: _Mapping, raw: bytes) -> None:
        """Makes its first bytes these, in the order of what else is done with tensors. `raw` may
        change once it returns."""
        address, size = c_ulonglong(mapping.address), c_size_t(len(raw))
        self._call("cuMemcpyHtoDAsync_v2", address, raw, size, self._stream())

    def semaphore(self, fd: int) -> c_void_p:
        semaphore = c_void_p()
        desc = _SemaphoreDesc(type=_OPAQUE_FD, handle=_Handle(fd=fd))
        self._call("cuImportExternalSemaphore", ctypes.byref(semaphore), ctypes.byref(desc))
        self._semaphores.append(semaphore)
        return semaphore

    def _stream(self) -> c_void_p:
        return c_void_p(_raw_stream(self._index))

    def enter(self) -> None:
        """Puts what the calling thread does next behind what others did, and what was done since
        with tensors that may be lent again."""
        if (raw := _raw_stream(self._index)) not in self._streams:
            self._streams[raw] = torch.cuda.current_stream(self._index)
        if len(self._streams) > 1:
            for other in self._streams:
                if other != raw:
                    self._streams[raw].wait_stream(self._streams[other])

    def signal(self, semaphore: c_void_p) -> None:
        """Signals once what tensors were given is there."""
        self._call(
            "cuSignalExternalSemaphoresAsync", ctypes.byref(semaphore), _PLAIN, _ONE, self._stream()
        )

    def wait(self, semaphore: c_void_p) -> None:
        """Has tensors wait before they are used again."""
        self._call(
            "cuWaitExternalSemaphoresAsync", ctypes.byref(semaphore), _PLAIN, _ONE, self._stream()
        )

    def synchronize(self) -> None:
        """Waits, on the host, for what tensors were given."""
        torch.cuda.synchronize(self._index)

    def close(self) -> None:
        for semaphore in self._semaphores:
            self._call("cuDestroyExternalSemaphore", semaphore)
        self._semaphores.clear()
