"""The planes of what is trained, on the GPU: parameters, their Adam moments and gradients, each
plane an allocation of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import undone
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.queue import once
from hardsplat.gpu.memory.buffer import (
    Buffer,
    Download,
    clear_all,
    download_all,
    record_copy,
    upload_all,
)
from hardsplat.gpu.memory.resources import moved
from hardsplat.model.gaussians import Gaussians, first_values
from hardsplat.tables import quantities
from hardsplat.tables.formats import MOMENT_FORMATS, MomentFormat
from hardsplat.tables.quantities import Of, Quantity

_MEMBERS = ("of_splats", "of_photographs", "of_cameras", "of_texels")  # as trained.ORDER


@dataclass
class Planes:
    """The buffers of one quantity by role, plane by plane: `value`, Adam's `first` and `second`,
    `gradient`, `average`. They lie on the device, but averages in the host's memory.

    count: how many planes it has, 0 where splats lack it. moments: how those of Adam are stored,
    None for none. out_of_core: a quantity that spills is in the host's memory, too."""

    device: Device
    quantity: Quantity
    capacity: int
    count: int
    moments: MomentFormat | None = None
    out_of_core: bool = False
    buffers: dict[str, list[Buffer]] = field(default_factory=dict)

    @cached_property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """What `means`, `d_means`, `average_means` and `adam_means` name."""
        q = self.quantity
        one = {q.name: ("value",), q.d: ("gradient",), q.average: ("average",)}
        return one | {q.moments: ("first", "second")}

    def itemsize(self, role: str) -> int:
        """Bytes of an item in a plane."""
        moments = self.moments if role in ("first", "second") else None
        return self.quantity.width * (moments.nbytes if moments else 4)

    def add(self, role: str) -> None:
        """Allocates the planes of a role. What fits before OutOfMemory is kept in `buffers`."""
        made = self.buffers[role] = []
        for _ in range(self.count if self.capacity else 0):
            made.append(self._allocate(role, self.capacity))  # noqa: PERF401

    def _allocate(self, role: str, capacity: int) -> Buffer:
        return Buffer(
            self.device,
            capacity * self.itemsize(role),
            next(name for name, roles in self.roles.items() if role in roles),
            host=role == "average" or (self.out_of_core and self.quantity.spills),
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
        for buffer in self.buffers.pop(role, ()):
            buffer.destroy()


def plane_table(planes_of: Mapping[str, Planes]) -> np.ndarray:
    """The contract's Planes struct for planes of quantities by name."""
    table = np.zeros((), contract.dtype("Planes"))
    for kind, member in zip(quantities.ORDER, _MEMBERS):
        table[member] = quantities.plane_count(kind)
    for offsets in quantities.offsets():
        q, planes = offsets.quantity, planes_of[offsets.quantity.name]
        for k in range(planes.count):
            entry = table["at"][offsets.first_plane + k]
            for role, buffers in planes.buffers.items() if planes.capacity else ():
                entry[role] = buffers[k].address & 0xFFFFFFFF, buffers[k].address >> 32
            entry["width"], entry["quantity"] = q.width, offsets.index
            entry["number"], entry["within"] = offsets.first_number + k * q.width, k
            entry["source"] = quantities.GRADIENTS[f"GRADIENT_{q.gradient.upper()}"]
            entry["band"] = k + 1 if q.name == "shN" else 0
            entry["centred"] = q.centred
            entry["items"] = 0 if q.of == "splat" else planes.capacity
    return table


# Which gradients have planes: none, those that a pass writes (of photographs, cameras and texels
# alone: "others"), or all that Python asks for.
Gradients = Literal["none", "others", "written", "all"]


class Parameters:
    """Everything that is trained, for up to `capacity` splats of an SH degree, with the numbers of
    splats and work sizes.

    moments: how Adam moments are stored, a variant of MOMENT_FORMATS, or None for none; the host
    reads and writes them as float32 all the same. items: how many photographs, cameras and texels
    of the sky there are, by default none. statistics: buffers of the contract, one element a splat,
    that grow with the splats. out_of_core: quantities that spill are in the host's memory. Raises
    OutOfMemory with nothing allocated.
    """

    def __init__(
        self,
        device: Device,
        capacity: int,
        sh_degree: int,
        moments: str | None = None,
        gradients: Gradients = "none",
        items: Mapping[Of, int] | None = None,
        statistics: Iterable[str] = (),
        out_of_core: bool = False,
    ):
        self.device, self.sh_degree, self._gradients = device, sh_degree, gradients
        self._moments = MOMENT_FORMATS[moments] if moments else None
        numbers = {"splat": capacity, "photograph": 0, "camera": 0, "texel": 0, **(items or {})}
        self._planes: dict[str, Planes] = {}
        self._statistics: dict[str, Buffer] = {}
        self._fixed: dict[str, Buffer] = {}
        with undone(self.destroy):
            for name in ("counts", "indirect", "planes"):
                self._fixed[name] = Buffer(device, contract.itemsize(name), name)
            for name in statistics:
                self._statistics[name] = Buffer(device, capacity * contract.itemsize(name), name)
            for quantity in quantities.QUANTITIES.values():
                n, count = numbers[quantity.of], quantity.planes(sh_degree)
                planes = Planes(device, quantity, n, count, self._moments, out_of_core)
                self._planes[quantity.name] = planes
                for role in self._roles(quantity):
                    planes.add(role)
        self.write_table()
        for quantity in quantities.QUANTITIES.values():
            if quantity.of != "splat":
                self._begin(quantity)
        self.set_count(0)

    # -- memory ------------------------------------------------------------------------------------

    def _roles(self, quantity: Quantity) -> Iterator[str]:
        yield "value"
        if self._moments:
            yield from ("first", "second")
        own = self._gradients == "written"
        own |= self._gradients == "others" and quantity.of != "splat"
        if (own and quantity.gradient == "plane") or self._gradients == "all":
            yield "gradient"

    def write_table(self) -> None:
        """Writes the table of planes that shaders read."""
        self._table = plane_table(self._planes)
        self._fixed["planes"].upload(self._table)

    def set_perturbations(self, sizes: Mapping[str, float]) -> None:
        """Tells shaders by how much stochastic gradients move each quantity; those that are not
        named stay where they are."""
        for offsets in quantities.offsets():
            size, first = sizes.get(offsets.quantity.name, 0.0), offsets.first_plane
            planes = self._planes[offsets.quantity.name].count
            self._table["at"][first : first + planes]["perturbation"] = size
        self._fixed["planes"].upload(self._table)

    @property
    def capacity(self) -> int:
        """Splats that fit in all planes."""
        return min(planes.capacity for planes in self.of_splats())

    @property
    def texels(self) -> int:
        return self._planes["sky"].capacity

    @property
    def resources(self) -> dict[str, Buffer]:
        """What passes bind: the planes themselves are reached through the table."""
        return {**self._fixed, **self._statistics}

    def nbytes(self) -> dict[str, int]:
        """Bytes on the device by name, as passes declare planes."""
        sizes = {name: buffer.nbytes for name, buffer in self.resources.items()}
        for buffer in self._all_planes():
            sizes[buffer.name] = sizes.get(buffer.name, 0) + buffer.nbytes * (not buffer.host)
        return sizes

    def _all_planes(self) -> Iterator[Buffer]:
        each = (buffers for planes in self._planes.values() for buffers in planes.buffers.values())
        return (buffer for buffers in each for buffer in buffers)

    def gradient_planes(self) -> list[Buffer]:
        """Planes of gradients that a pass writes; no step reads what another has left there."""
        return [b for planes in self._planes.values() for b in planes.buffers.get("gradient", ())]

    def resize(self, capacity: int, n: int) -> None:
        """Another capacity for the same n splats, plane by plane: old and new of one plane exist
        together, not of all. No step may be in flight.

        Raises OutOfMemory where a plane does not fit; then nothing is lost, and the planes before
        it have the new size.
        """
        try:
            for name, old in self._statistics.items():
                size = contract.itemsize(name)
                make = partial(Buffer, self.device, capacity * size, name)
                self._statistics[name] = moved(old, make, n * size, capacity * size)
            for planes in self.of_splats():
                planes.resize(capacity, n)
        finally:
            self.write_table()
            self.set_count(n)

    @property
    def averaged(self) -> bool:
        """Whether averages of the splats over steps are kept. They are in the host's memory:
        samples are few and late, when the device has the most splats."""
        return any("average" in planes.buffers for planes in self._planes.values())

    def begin_averages(self, n: int) -> None:
        """Keeps averages of the n splats, which begin as the values of these. No step may be in
        flight. Raises OutOfMemory; then none are kept."""
        with undone(self._drop_averages):
            for planes in self.of_splats():
                planes.add("average")
        self._copy_roles(n, "value", "average")
        self.write_table()

    def take_averages(self, n: int) -> None:
        """Makes the n splats their averages, which are kept no longer. No step may be in flight."""
        self._copy_roles(n, "average", "value")
        self._drop_averages()

    def _drop_averages(self) -> None:
        for planes in self.of_splats():
            planes.destroy("average")
        self.write_table()

    def _copy_roles(self, n: int, source: str, target: str) -> None:
        """Copies the planes of n splats from one role to another."""
        with once(self.device) as commands:
            for planes in self.of_splats():
                nbytes = n * planes.itemsize("value")
                for pair in zip(planes.buffers[source], planes.buffers[target]):
                    record_copy(commands, *pair, nbytes)

    def of_splats(self, others: bool = False) -> list[Planes]:
        """The planes of every quantity of splats, or of all others."""
        return [p for p in self._planes.values() if (p.quantity.of == "splat") != others]

    def destroy(self) -> None:
        for buffer in (*self._all_planes(), *self._statistics.values(), *self._fixed.values()):
            buffer.destroy()
        self._planes.clear()
        self._statistics.clear()
        self._fixed.clear()

    # -- values in and out -------------------------------------------------------------------------

    def _found(self, name: str) -> tuple[Planes, tuple[str, ...]]:
        """The planes and roles of `means`, `adam_means` or `d_means`."""
        for planes in self._planes.values():
            if roles := planes.roles.get(name):
                return planes, roles
        raise KeyError(f"{name} is not trained here; there are {', '.join(self._planes)}")

    def buffers(self, name: str) -> list[Buffer]:
        """The planes of a quantity, or of its gradient."""
        planes, roles = self._found(name)
        return planes.buffers[roles[0]]

    def shape(self, name: str, n: int) -> tuple[int, ...]:
        """Shape of the first n items: (planes, n, width) of a quantity or its gradient, (2, planes,
        n, width) of its moments, (1, n, numbers) of statistics."""
        if name in self._statistics:
            return 1, n, contract.itemsize(name) // 4
        planes, roles = self._found(name)
        shape = planes.count, n, planes.quantity.width
        return (len(roles), *shape) if len(roles) > 1 else shape

    def read(self, name: str, n: int, out: np.ndarray | None = None) -> np.ndarray:
        """float32 of this `shape`. out: where to, with anything in it."""
        out = np.empty(self.shape(name, n), np.float32) if out is None else out
        if name in self._statistics:
            self._statistics[name].copy_to(out)
            return out
        wanted: list[Download] = []
        for buffer, plane, half in self._plane_by_plane(name, out):
            nbytes, put = (plane.nbytes // 2, _widen) if half else (plane.nbytes, np.copyto)
            if buffer.host:
                put(plane.reshape(-1).view(np.uint8), buffer.array()[:nbytes])
            else:
                wanted.append(Download(buffer, plane, nbytes, put))
        download_all(wanted)
        return out

    def write(self, name: str, values: np.ndarray) -> None:
        """From what `read` returns; moments that are stored in bfloat16 are rounded to nearest."""
        values = np.asarray(values, np.float32)
        if name in self._statistics:
            self._statistics[name].upload(values)
            return
        for buffer, plane, half in self._plane_by_plane(name, values):
            buffer.upload(to_bfloat16(plane) if half else plane)

    def _plane_by_plane(
        self, name: str, values: np.ndarray
    ) -> Iterator[tuple[Buffer, np.ndarray, bool]]:
        """The buffer of each plane, its part of `values`, and whether it is stored in halves."""
        planes, roles = self._found(name)
        if not planes.capacity:
            return
        for role, arrays in zip(roles, values if len(roles) > 1 else values[None]):
            half = planes.itemsize(role) < 4 * planes.quantity.width
            for buffer, plane in zip(planes.buffers[role], arrays, strict=True):
                yield buffer, plane, half

    def items(self, name: str, splats: int) -> int:
        """How many items a quantity, its moments or its gradient has."""
        if name in self._statistics:
            return splats
        planes, _ = self._found(name)
        return splats if planes.quantity.of == "splat" else planes.capacity

    def _begin(self, quantity: Quantity) -> None:
        """First values and no momentum."""
        n = self._planes[quantity.name].capacity
        if not n:
            return
        first = first_values(quantity, n, self.sh_degree)
        self.write(quantity.name, first)
        if self._moments:
            self.write(quantity.moments, np.zeros((2, *first.shape), np.float32))

    def forget(self, moments: bool = True) -> None:
        """No statistics, and with `moments` no momentum."""
        roles = ("first", "second") if moments else ()
        each = (planes.buffers.get(role, ()) for planes in self._planes.values() for role in roles)
        clear_all([*(buffer for buffers in each for buffer in buffers), *self._statistics.values()])

    def set_count(self, n: int) -> None:
        counts = contract.struct("Counts", splats=n, capacity=self.capacity)
        self._fixed["counts"].upload(counts)

    @property
    def counts(self) -> np.void:
        """The contract's Counts as they are now; waits for the copy."""
        return self._fixed["counts"].download(contract.dtype("Counts"))[0]

    @classmethod
    def of(cls, device: Device, gaussians: Gaussians) -> Parameters:
        """These splats, and the sky behind them, to be drawn. Raises OutOfMemory."""
        items: dict[Of, int] = {"texel": len(gaussians.sky.texels) if gaussians.sky else 0}
        found = cls(device, max(len(gaussians), 1), gaussians.sh_degree, items=items)
        found.upload(gaussians)
        return found

    def upload(self, gaussians: Gaussians) -> None:
        """Replaces all splats, and the sky by one of its size. SH bands that `gaussians` lacks
        become zeros."""
        n = len(gaussians)
        if n > self.capacity or gaussians.sh_degree > self.sh_degree:
            raise ValueError(
                f"{n:,} splats of SH degree {gaussians.sh_degree} do not fit: capacity "
                f"{self.capacity}, SH degree {self.sh_degree}"
            )
        for name, values in gaussians.planes(self.sh_degree).items():
            if values.shape[1] == self.items(name, n):
                self.write(name, values)
        self.set_count(n)

    def place(self, parts: Iterable[tuple[int, Gaussians]]) -> None:
        """Writes splats over those from `first` on, for each (first, splats). SH bands that they
        lack become zeros; the count stays."""
        upload_all(
            (buffer, 4 * first * plane.shape[1], plane)
            for first, gaussians in parts
            for name, values in gaussians.planes(self.sh_degree).items()
            for buffer, plane, _ in self._plane_by_plane(name, values)
        )

    def hide(self, spans: Iterable[tuple[int, int]]) -> None:
        """Makes splats too faint to be drawn, n from `first` on for each (first, n)."""
        (buffer,) = self.buffers("logit_opacities")
        upload_all((buffer, 4 * first, np.full(n, -30, np.float32)) for first, n in spans)

    def values(self, n: int) -> dict[str, np.ndarray]:
        """The trained values of n splats and of the sky, (planes, items, width) by name."""
        return {name: self.read(name, self.items(name, n)) for name in quantities.drawn()}

    def download(self) -> Gaussians:
        return Gaussians.from_planes(self.values(int(self.counts["splats"])))


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 -> the bits of the nearest bfloat16, ties to even, as uint16."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = bits + (0x7FFF + (bits >> 16 & 1))
    kept = np.where(np.isnan(values), bits | 1 << 22, rounded)  # a NaN stays one
    return (kept >> 16).astype(np.uint16)


def from_bfloat16(bits: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """The float32 that these uint16 are, exactly. out: where to, of their shape and contiguous."""
    out = np.empty(bits.shape, np.float32) if out is None else out
    np.left_shift(bits, 16, out=out.view(np.uint32), dtype=np.uint32)
    return out


def _widen(out: np.ndarray, halves: np.ndarray) -> None:
    """from_bfloat16 of bytes to bytes."""
    from_bfloat16(halves.view(np.uint16), out.view(np.float32))
