"""The planes of a trained quantity, and the table by which shaders find them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from hardsplat import contract
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.resources import moved
from hardsplat.tables import quantities
from hardsplat.tables.formats import MomentFormat
from hardsplat.tables.quantity import Quantity

_MEMBERS = ("of_splats", "of_photographs", "of_cameras", "of_texels")  # as trained.ORDER


@dataclass(frozen=True)
class Storage:
    """Where planes lie: on the device, but averages in the host's memory. moments: how those of
    Adam are stored, None for none. out_of_core: quantities that spill are in the host's memory,
    too."""

    device: Device
    moments: MomentFormat | None = None
    out_of_core: bool = False


@dataclass
class Planes:
    """The buffers of one quantity by role, plane by plane: `value`, Adam's `first` and `second`,
    `gradient`, `average`. count: how many planes it has, 0 where splats lack it."""

    storage: Storage
    quantity: Quantity
    capacity: int
    count: int
    buffers: dict[str, list[Buffer]] = field(default_factory=dict)

    @cached_property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """What `means`, `d_means`, `average_means` and `adam_means` name."""
        q = self.quantity
        one = {q.name: ("value",), q.d: ("gradient",), q.average: ("average",)}
        return one | {q.moments: ("first", "second")}

    def itemsize(self, role: str) -> int:
        """Bytes of an item in a plane."""
        moments = self.storage.moments if role in ("first", "second") else None
        return self.quantity.width * (moments.nbytes if moments else 4)

    def add(self, role: str) -> None:
        """Allocates the planes of a role. What fits before OutOfMemory is kept in `buffers`."""
        made = self.buffers[role] = []
        for _ in range(self.count if self.capacity else 0):
            made.append(self._allocate(role, self.capacity))  # noqa: PERF401

    def _allocate(self, role: str, capacity: int) -> Buffer:
        return Buffer(
            self.storage.device,
            capacity * self.itemsize(role),
            next(name for name, roles in self.roles.items() if role in roles),
            host=role == "average" or (self.storage.out_of_core and self.quantity.spills),
            addressed=True,
            grows_with="splats" if self.quantity.of == "splat" else "",
        )

    def resize(self, capacity: int, n: int) -> None:
        """Another capacity for the same n items, plane by plane: old and new of one exist together.
        Raises OutOfMemory where one does not fit; then nothing is lost."""
        self.capacity = min(capacity, self.capacity)  # until all buffers are large enough for more
        for role, buffers in self.buffers.items():
            size, kept = self.itemsize(role), 0 if role == "gradient" else n
            make = partial(self._allocate, role, capacity)
            for k, old in enumerate(buffers):
                buffers[k] = moved(old, make, kept * size, capacity * size)
        self.capacity = capacity

    def destroy(self, role: str) -> None:
        """Frees the planes of a role."""
        for buffer in self.buffers.pop(role, ()):
            buffer.destroy()


def plane_table(planes_of: Mapping[str, Planes]) -> np.ndarray:
    """The contract's Planes struct for planes of quantities by name."""
    table = np.zeros((), contract.dtype("Planes"))
    for kind, member in zip(quantities.ORDER, _MEMBERS):
        table[member] = quantities.plane_count(kind)
    for place in quantities.places():
        q, planes = place.quantity, planes_of[place.quantity.name]
        for k in range(planes.count):
            entry = table["at"][place.plane + k]
            for role, buffers in planes.buffers.items() if planes.capacity else ():
                entry[role] = buffers[k].address & 0xFFFFFFFF, buffers[k].address >> 32
            entry["width"], entry["quantity"] = q.width, place.index
            entry["number"], entry["within"] = place.number + k * q.width, k
            entry["source"] = quantities.GRADIENTS[f"GRADIENT_{q.gradient.upper()}"]
            entry["band"] = k + 1 if q.name == "shN" else 0
            entry["centred"] = q.centred
            entry["items"] = 0 if q.of == "splat" else planes.capacity
    return table
