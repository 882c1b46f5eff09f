"""Splats on the device: where their numbers are, and where their gradients go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hardsplat import contract
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.tables import quantities
from hardsplat.torch.links import Link

# Tensors by name, and the quantity whose plane holds their numbers, see rows of
# hardsplat.raster.core.sinks.Sink.
PLANES = dict(
    means="means", quats="quats", scales="log_scales", opacities="logit_opacities", sh="sh0"
)


class Given:
    """What a rasterizer with the sink STORE_ROWS draws, see hardsplat.raster.core.rasterizer.Drawn:
    numbers that lie elsewhere, in the order of PLANES. Raises OutOfMemory."""

    def __init__(self, link: Link, capacity: int, sh_degree: int):
        self.capacity, self.sh_degree, self._link = capacity, sh_degree, link
        self._buffers: dict[str, Buffer] = {}
        try:
            for name in ("counts", "indirect"):
                self._buffers[name] = Buffer(link.device, contract.itemsize(name), name)
            self._buffers["planes"] = link.buffer(contract.itemsize("planes"), "planes")
        except BaseException:
            self.destroy()
            raise
        self._table = np.zeros((), contract.dtype("Planes"))
        self._told, self._count = b"", -1  # what the device has
        members = ("of_splats", "of_photographs", "of_cameras", "of_texels")
        for kind, member in zip(quantities.ORDER, members):
            self._table[member] = quantities.plane_count(kind)
        names = {quantity: name for name, quantity in PLANES.items()}
        rows = {}
        for place in quantities.places():
            if place.quantity.name in names:
                row = self._table["at"][place.plane : place.plane + 1]
                rows[names[place.quantity.name]] = row
                row["width"], row["quantity"] = place.quantity.width, place.index
                row["source"] = quantities.GRADIENTS[f"GRADIENT_{place.quantity.gradient.upper()}"]
        self._rows = [rows[name] for name in PLANES]

    @property
    def all(self) -> Mapping[str, Buffer]:
        return self._buffers

    @property
    def counts(self) -> np.void:
        """The contract's Counts as they are now; waits for the copy."""
        return self._buffers["counts"].download(contract.dtype("Counts"))[0]

    def read_from(self, addresses: Sequence[int], n: int, coefficients: int) -> None:
        """Where the numbers of n splats are, with so many SH coefficients each."""
        self._rows[-1]["width"] = 3 * coefficients
        self._point("value", addresses)
        if n != self._count:
            counts = np.zeros(1, contract.dtype("Counts"))
            counts["splats"], counts["capacity"] = n, self.capacity
            self._buffers["counts"].upload(counts)
            self._count = n

    def write_to(self, addresses: Sequence[int]) -> None:
        """Where gradients go."""
        self._point("gradient", addresses)

    def _point(self, what: str, addresses: Sequence[int]) -> None:
        for row, address in zip(self._rows, addresses):
            row[what] = address & 0xFFFFFFFF, address >> 32
        if (raw := self._table.tobytes()) != self._told:
            self._link.write(self._buffers["planes"], raw)
            self._told = raw

    def destroy(self) -> None:
        for buffer in self._buffers.values():
            buffer.destroy()
        self._buffers.clear()
