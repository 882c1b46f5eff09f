"""Memory of a device: what we have of it by kind and name, and what the driver reports."""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import vulkan as vk

from hardsplat.base.errors import UserError

_Key = tuple[str, int]


def _key(kind: str, handle) -> _Key:
    return kind, int(vk.ffi.cast("uintptr_t", handle))


class Objects:
    """Vulkan objects by kind and handle, each with what destroys it. Several threads may use
    it."""

    def __init__(self) -> None:
        # a driver may give equal objects one handle
        self._destroy: dict[_Key, list[Callable[[], Any]]] = {}
        self._lock = threading.Lock()

    def add(self, kind: str, handle, destroy: Callable[[], Any]) -> None:
        with self._lock:
            self._destroy.setdefault(_key(kind, handle), []).append(destroy)

    def destroy(self, kind: str, handle) -> None:
        """Destroys one of them. Raises KeyError for what is not there (any more)."""
        key = _key(kind, handle)
        with self._lock:
            destroy = self._destroy[key].pop()
            if not self._destroy[key]:
                del self._destroy[key]
        destroy()

    def destroy_all(self) -> None:
        """Destroys all that are left, the newest first."""
        with self._lock:
            left, self._destroy = self._destroy, {}
        for each in reversed(left.values()):
            for destroy in each:
                destroy()

    def count(self) -> Counter[str]:
        """How many there are, by kind."""
        with self._lock:
            return Counter(kind for (kind, _), each in self._destroy.items() for _ in each)


KINDS = ("buffers", "images", "host")  # the last is memory of the host that the device reaches


_LIMIT = "HARDSPLAT_MEMORY"


def memory_limit() -> int:
    """HARDSPLAT_MEMORY: bytes of a device's own memory that may be used, as `8G` or `512M`; 0 for
    all of it. Raises UserError for another word."""
    word = os.environ.get(_LIMIT, "").strip()
    if not word:
        return 0
    if not (found := re.fullmatch(r"(\d{1,7}(?:\.\d+)?) ?([MG])(?:i?B)?", word, re.IGNORECASE)):
        raise UserError(f"{_LIMIT} is {word}: write it as 8G or 512M")
    return int(float(found[1]) * 2 ** (30 if found[2].upper() == "G" else 20))


class MemoryBudget(NamedTuple):
    """Bytes of a device's largest local heap, by VK_EXT_memory_budget. used: what this process has
    there, by the driver's count. most: what it may have before allocations fail or become slow,
    which falls when other programs take memory."""

    used: int
    most: int

    @property
    def free(self) -> int:
        return max(self.most - self.used, 0)


class Usage:
    """Bytes that buffers and images of ours have, by kind (KINDS) and by name. peak: the most that
    there were at once on the device, those of the host left out. driver: the most that the driver
    reported when it was asked, 0 where it cannot."""

    def __init__(self) -> None:
        self.by_kind: Counter[str] = Counter()
        self.by_name: Counter[str] = Counter()
        self.peak = self.driver = 0
        self._lock = threading.Lock()

    @property
    def on_device(self) -> int:
        return self.by_kind["buffers"] + self.by_kind["images"]

    def restart(self) -> None:
        """Forgets the peaks of before."""
        with self._lock:
            self.peak, self.driver = self.on_device, 0

    def add(self, kind: str, name: str, nbytes: int) -> None:
        """Counts an allocation; what is freed has a negative size."""
        with self._lock:
            self.by_kind[kind] += nbytes
            self.by_name[name] += nbytes
            self.peak = max(self.peak, self.on_device)
            if not self.by_name[name]:
                del self.by_name[name]


def budget_of(physical, heap: int) -> MemoryBudget:
    """The budget of a heap of a VkPhysicalDevice with VK_EXT_memory_budget, now."""
    stype = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT
    more = vk.ffi.new("VkPhysicalDeviceMemoryBudgetPropertiesEXT*", {"sType": stype})
    stype = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2
    head = vk.ffi.new("VkPhysicalDeviceMemoryProperties2*", {"sType": stype, "pNext": more})
    vk.lib.vkGetPhysicalDeviceMemoryProperties2(physical, head)
    return MemoryBudget(int(more.heapUsage[heap]), int(more.heapBudget[heap]))
