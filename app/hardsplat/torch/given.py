"""Splats of tensors on the device: where their numbers are, and where their gradients go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
import torch

from hardsplat import contract
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.tables import quantities
from hardsplat.torch.links import Link

# Tensors by name, and the quantity whose plane holds their numbers, see rows of
# hardsplat.raster.core.sinks.Sink.
PLANES = dict(
    means="means", quats="quats", scales="log_scales", opacities="logit_opacities", sh="sh0"
)
_ALIGNED = 256  # bytes between the beginnings of two tensors' gradients, a multiple


def _halves(address: int) -> tuple[int, int]:
    return address & 0xFFFFFFFF, address >> 32


class Given:
    """What a rasterizer with the sink STORE_ROWS draws, see hardsplat.raster.core.rasterizer.Drawn.

    Values are read where they lie, if the link shares that memory, and else from copies. Gradients
    go into memory that the link lends. Raises OutOfMemory.
    """

    def __init__(self, link: Link, capacity: int, sh_degree: int):
        self.capacity, self.sh_degree, self._link = capacity, sh_degree, link
        self.further: tuple[str, ...] = ()
        self._copies: dict[str, Buffer] = {}
        self._fixed: dict[str, Buffer] = {}
        try:
            for name in ("counts", "indirect"):
                self._fixed[name] = Buffer(link.device, contract.itemsize(name), name)
            self._fixed["planes"] = link.buffer(contract.itemsize("planes"), "planes")
        except BaseException:
            self.destroy()
            raise
        self._table = np.zeros((), contract.dtype("Planes"))
        self._told = b""  # what the device has of the table
        self._fields: dict[str, np.ndarray] = {}
        members = ("of_splats", "of_photographs", "of_cameras", "of_texels")
        for kind, member in zip(quantities.ORDER, members):
            self._table[member] = quantities.plane_count(kind)
        names = {quantity: name for name, quantity in PLANES.items()}
        for place in quantities.places():
            if place.quantity.name in names:
                row = self._table["at"][place.plane : place.plane + 1]
                self._fields[names[place.quantity.name]] = row
                row["width"], row["quantity"] = place.quantity.width, place.index
                row["source"] = quantities.GRADIENTS[f"GRADIENT_{place.quantity.gradient.upper()}"]
        self.set_count(0)

    @property
    def all(self) -> Mapping[str, Buffer]:
        return self._fixed

    @property
    def counts(self) -> np.void:
        """The contract's Counts as they are now; waits for the copy."""
        return self._fixed["counts"].download(contract.dtype("Counts"))[0]

    def set_count(self, n: int) -> None:
        counts = np.zeros(1, contract.dtype("Counts"))
        counts["splats"], counts["capacity"] = n, self.capacity
        self._fixed["counts"].upload(counts)

    def give(self, name: str, tensor: torch.Tensor) -> None:
        """Has the device read a tensor, (n, ...) float32, from now on. Where it is copied, it must
        be given again after a change."""
        row = self._fields[name]
        if name == "sh":
            row["width"] = 3 * tensor.shape[1]
        address = self._link.address(tensor)
        if address is None:
            if name not in self._copies:
                numbers = 3 * (self.sh_degree + 1) ** 2 if name == "sh" else int(row["width"][0])
                size = 4 * numbers * self.capacity
                self._copies[name] = self._link.buffer(size, PLANES[name], addressed=True)
            address = self._copies[name].address
            self._link.put(self._copies[name], tensor)
        row["value"] = _halves(address)

    def lend(self, shapes: Mapping[str, Sequence[int]]) -> Callable[[], tuple[torch.Tensor, ...]]:
        """Memory that gradients go to from now on. What is returned shows them after a run, in the
        order of `shapes`, by tensor; it may be called once.

        Those of `sh`, the largest, have a block of their own; the others share one."""
        blocks = {"gradients": 0, "gradients of sh": 0}  # their bytes
        places = {}  # the block of each tensor's, and the first byte in it
        for name, shape in shapes.items():
            block = "gradients of sh" if name == "sh" else "gradients"
            places[name] = block, blocks[block]
            blocks[block] += -(-4 * prod(shape) // _ALIGNED) * _ALIGNED
        loans = {block: self._link.lend(nbytes, block) for block, nbytes in blocks.items()}
        for name, (block, start) in places.items():
            self._fields[name]["gradient"] = _halves(loans[block].address + start)

        def found() -> tuple[torch.Tensor, ...]:
            flat = {block: loan.tensor((blocks[block] // 4,)) for block, loan in loans.items()}
            each = ((*places[name], shape) for name, shape in shapes.items())
            return tuple(
                flat[block].narrow(0, at // 4, prod(shape)).view(shape) for block, at, shape in each
            )

        return found

    def write_table(self) -> None:
        """Writes the table that shaders read, where it has changed."""
        raw = self._table.tobytes()
        if raw != self._told:
            self._link.write(self._fixed["planes"], raw)
            self._told = raw

    def destroy(self) -> None:
        for buffer in (*self._copies.values(), *self._fixed.values()):
            buffer.destroy()
        self._copies.clear()
        self._fixed.clear()
