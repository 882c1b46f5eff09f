"""The planes of a trained quantity, and the table by which shaders find them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hardsplat import contract
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.tables import quantities
from hardsplat.tables.quantity import Quantity

_MEMBERS = ("of_splats", "of_photographs", "of_cameras", "of_texels")  # as trained.ORDER


@dataclass
class Planes:
    """The buffers of one quantity by role, plane by plane. count: how many planes it has, 0 where
    splats lack it."""

    quantity: Quantity
    capacity: int
    count: int
    buffers: dict[str, list[Buffer]] = field(default_factory=dict)


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
