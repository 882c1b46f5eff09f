"""What was made on a device and is not destroyed yet."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import vulkan as vk

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
