"""What an owner has on the device, destroyed together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from hardsplat.gpu.device.context import Destroyable

T = TypeVar("T", bound=Destroyable)


class Owned:
    """Buffers, images, recorders and all else that is destroyed with their owner, the last
    first."""

    def __init__(self, parts: Iterable[Destroyable] = ()):
        self._parts = list(parts)

    def add(self, part: T) -> T:
        """The part, which is owned from here on."""
        self._parts.append(part)
        return part

    def add_all(self, parts: Iterable[Destroyable]) -> None:
        self._parts += parts

    def drop(self, part: Destroyable) -> None:
        """Destroys one of them now."""
        self._parts.remove(part)
        part.destroy()

    def destroy(self) -> None:
        """Destroys them all. May be called again, and after it there may be new ones."""
        while self._parts:
            self._parts.pop().destroy()
