"""What one view is drawn with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import ref

import torch

from hardsplat import contract
from hardsplat.base.errors import OutOfMemory, undone
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.resources import Owned, destroy_all
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.raster.core.parameters import Planes, plane_table
from hardsplat.raster.core.rasterizer import Rasterizer, pairs_wanted
from hardsplat.raster.core.sinks import STORE_ROWS
from hardsplat.raster.pictures import TENSOR_PASSES
from hardsplat.settings.rasterizers import Options
from hardsplat.tables import quantities
from hardsplat.torch.cameras import NUMBERS
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
        self.resources: dict[str, Buffer] = {}
        with undone(self.destroy):
            for name in ("counts", "indirect"):
                self.resources[name] = Buffer(link.device, contract.itemsize(name), name)
            self.resources["planes"] = link.buffer(contract.itemsize("planes"), "planes")
        self._told, self._count = b"", -1  # what the device has
        every = quantities.QUANTITIES.items()
        planes = {name: Planes(link.device, q, 0, q.planes(0)) for name, q in every}
        self._table = plane_table(planes)
        first = {row.quantity.name: row.first_plane for row in quantities.offsets()}
        self._rows = [self._table["at"][first[q] : first[q] + 1] for q in PLANES.values()]

    def read_from(self, addresses: Sequence[int], n: int, coefficients: int) -> None:
        """Where the numbers of n splats are, with so many SH coefficients each."""
        self._rows[-1]["width"] = 3 * coefficients
        self.point("value", addresses)
        if n != self._count:
            counts = contract.struct("Counts", splats=n, capacity=self.capacity)
            self.resources["counts"].upload(counts)
            self._count = n

    def point(self, what: str, addresses: Sequence[int]) -> None:
        for row, address in zip(self._rows, addresses):
            row[what] = address & 0xFFFFFFFF, address >> 32
        if (raw := self._table.tobytes()) != self._told:
            self._link.write(self.resources["planes"], raw)
            self._told = raw

    def destroy(self) -> None:
        destroy_all(self.resources)
        self.resources.clear()


@dataclass(eq=False)
class SplatView:
    """A view of splats. addresses: where their numbers are, in the order of PLANES, as long as
    `owners` live. coefficients: SH coefficients that a splat has. camera, frame: the contract's
    structs; row: numbers of the camera that are on the GPU, see Cameras. slot: where it was drawn
    last."""

    addresses: list[int]
    owners: list
    n: int
    coefficients: int
    camera: bytes
    row: torch.Tensor | None
    frame: bytes
    size: tuple[int, int]  # width, height, px
    slot: Slot | None = None

    @property
    def drawn(self) -> bool:
        """Whether what a forward pass leaves is there, for a backward pass."""
        return self.slot is not None and self.slot.shot is self


class Slot:
    """Buffers and recorded commands of a view of up to `capacity` splats on a canvas of width x
    height px. pairs: that have room at first. nbytes: what it took of the device's memory. Raises
    OutOfMemory."""

    def __init__(
        self, link: Link, backend: type[Rasterizer], options: Options, key: tuple, pairs: int
    ) -> None:
        (capacity, sh_degree, width, height), device = key, link.device
        self._link, self._parts, self._canvas = link, Owned(), (width, height)
        self._shot: ref[SplatView] | None = None
        self._told: dict[str, tuple] = {}  # what the device has in `camera` and `frame`
        self._drew = False  # that `wanted` is an image's
        self._refused = 0  # pairs that there was no memory for
        own, before = self._parts.add, device.usage.on_device
        with undone(self.destroy):
            self._given = own(Given(link, capacity, sh_degree))
            self.raster = own(backend(device, self._given, width, height, options, sink=STORE_ROWS))
            self.raster.reserve_pairs(pairs)
            sizes = {name: contract.itemsize(name) for name in ("camera", "frame")}
            sizes |= dict.fromkeys(("image_out", "d_image_in"), 16 * width * height)
            self._views = {name: own(link.buffer(size, name)) for name, size in sizes.items()}
            self._out, self._d = (
                link.tensor(self._views[name], (4 * width * height,))
                for name in ("image_out", "d_image_in")
            )
            self._row = link.tensor(self._views["camera"], (NUMBERS,))
            seen = Buffer(device, contract.itemsize("counts"), "counts_seen", host=True)
            self._views["counts_seen"] = own(seen)
            seen.fill(0)
            self._counts = seen.array(contract.dtype("Counts"))
            self.record()
            self.nbytes = device.usage.on_device - before

    def record(self) -> None:
        """Commands of a forward pass, up to when `wanted` is known and after that, and of backward
        passes: one that stores its gradients, and one that adds them to what is there."""
        resources = {**self.raster.resources, **self._views}
        own, device = self._parts.add, self._link.device
        self.recorders = [own(Recorder(device, resources)) for _ in range(4)]
        self.forward, self.rest, *backwards = self.recorders
        self.backward, self.backward_added = backwards
        run = build_all(device, TENSOR_PASSES)
        self.raster.record_forward(self.forward, rest=self.rest)
        self.forward.copy("counts", "counts_seen")
        self.rest.run(run["image out"], threads=self._canvas)
        for adds, recorder in enumerate(backwards):
            recorder.run(run["d_image in"], threads=self._canvas)
            self.raster.record_backward(recorder, adds > 0)
        for recorder in self.recorders:
            recorder.end()

    @property
    def shot(self) -> SplatView | None:
        """What was drawn here last and may have a backward pass."""
        return None if self._shot is None else self._shot()

    def free(self) -> None:
        """Forgets it."""
        self._shot = None

    @property
    def waits(self) -> bool:
        """Whether the host looks at `wanted` before anybody uses an image: one may lack splats, or
        it is the first, after which later ones take less time."""
        complete = self._drew and self.raster.draws_unlisted
        return self.raster.pair_capacity > 0 and not complete

    def take(self, shot: SplatView) -> None:
        """Has the device draw it next."""
        if not self.waits:
            self.grow()  # by what is known so far: it is faster where all pairs are listed
        self._shot, shot.slot = ref(shot), self
        self._write("frame", shot.frame)
        self._write("camera", shot.camera, shot.row is not None)
        if shot.row is not None:
            self._row.copy_(shot.row)
        self._given.read_from(shot.addresses, shot.n, shot.coefficients)

    def _write(self, name: str, raw: bytes, changes: bool = False) -> None:
        """changes: its first numbers are others then."""
        if self._told.get(name) != (raw, changes):
            self._link.write(self._views[name], raw)
            self._told[name] = raw, changes

    def image(self, width: int, height: int) -> tuple[torch.Tensor, torch.Tensor]:
        """What was drawn, in place: (H, W, 3) colours, (H, W) transmittance behind the last
        splat."""
        return _parted(self._out, width, height)

    def differentiate(
        self, d_image: torch.Tensor | None, d_T: torch.Tensor | None, to: list[int]
    ) -> None:
        """Has the device find the gradients of its shot next, for those of `image`, and put them
        `to` these addresses."""
        shot = self.shot
        assert shot is not None
        d_colors, d_Ts = _parted(self._d, *shot.size)
        d_colors.zero_() if d_image is None else d_colors.copy_(d_image)
        d_Ts.zero_() if d_T is None else d_Ts.copy_(d_T)
        self._given.point("gradient", to)
        self.free()  # the backward pass uses up what the forward pass leaves it

    @property
    def wanted(self) -> int:
        """Pairs that an image has: the last one where `Link.land` was called since, else an earlier
        one."""
        return pairs_wanted(self._counts[0])

    def grow(self) -> bool:
        """Whether an image has more pairs than fit, and there is room for them now. Raises
        OutOfMemory where it would lack splats: the slot is of no use then."""
        self._drew, wanted = True, self.wanted
        if wanted <= max(self.raster.pair_capacity, self._refused):
            return False
        try:
            if not self.raster.reserve_pairs(wanted):
                return False
        except OutOfMemory:
            if not self.raster.draws_unlisted:
                raise
            self._refused = wanted
        self.record_again()
        return wanted > self._refused

    def record_again(self) -> None:
        """For other buffers of the rasterizer."""
        self._link.settle()
        for recorder in self.recorders:
            self._parts.drop(recorder)
        self.record()

    def destroy(self) -> None:
        self.free()
        self._parts.destroy()
        self._out = self._d = self._row = torch.zeros(0)  # shots may outlive their slot


def _parted(flat: torch.Tensor, width: int, height: int) -> tuple[torch.Tensor, torch.Tensor]:
    colors, T = flat[: 4 * width * height].split([3 * width * height, width * height])
    return colors.view(height, width, 3), T.view(height, width)
