"""A working set: the splats of a model that one view may show, in buffers of their number."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.owned import Owned
from hardsplat.gpu.memory.resources import allocate_all
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.planes import plane_table
from hardsplat.raster.core.sort import BLOCK, SORT_PASSES
from hardsplat.raster.working.passes import cull_passes, record_cull


def model_resources(model: Parameters) -> dict[str, Buffer]:
    """What passes bind of the whole model."""
    return {f"model_{name}": buffer for name, buffer in model.all.items()}


def _marks(model: Parameters) -> dict[str, int]:
    """Bytes of what the cull leaves, by buffer."""
    blocks = -(-max(model.capacity, 1) // BLOCK)
    return contract.nbytes({"shown_bits": blocks * BLOCK // 32, "shown_sums": blocks + 1})


class WorkingSet:
    """Room for `capacity` splats of a model, which a rasterizer draws instead of it.

    Photographs and cameras are the model's; a sky is not drawn. moments, follow: as of Parameters.
    Raises OutOfMemory with nothing allocated.
    """

    def __init__(
        self,
        device: Device,
        model: Parameters,
        capacity: int,
        moments: str | None = None,
        follow: Iterable[str] = (),
    ):
        self._parts, self.sh_degree = Owned(), model.sh_degree
        degree = model.sh_degree
        try:
            splats = Parameters(device, capacity, degree, moments, "written", follow=follow)
            self.splats = self._parts.add(splats)
            sizes = {"working": capacity * contract.itemsize("working"), **_marks(model)}
            self._own = allocate_all(device, sizes)
        except BaseException:
            self._parts.destroy()
            raise
        self._parts.add_all(self._own.values())
        planes = (*splats.of_splats(), *model.of_splats(others=True))
        table = plane_table({p.quantity.name: p for p in planes})
        splats.all["planes"].upload(table)
        self.all = {**self.splats.all, **self._own, **model_resources(model)}

    @property
    def capacity(self) -> int:
        return self.splats.capacity

    @property
    def counts(self) -> np.void:
        """The contract's Counts of the set as they are now."""
        return self.splats.counts

    def destroy(self) -> None:
        self._parts.destroy()


def most_shown(
    device: Device,
    model: Parameters,
    cameras: np.ndarray,
    frame: np.ndarray,
    geometry: tuple[str, ...],
    lens: str,
) -> int:
    """Splats of the model that one of the cameras (structs of the contract) may show at most.
    frame: a Frame struct. geometry, lens: as of cull_passes. No step may be in flight."""
    sizes = {**_marks(model), **contract.nbytes({"camera": 1, "frame": 1, "counts": 1})}
    sizes["working"] = contract.itemsize("working")  # the list of them is not needed
    own = allocate_all(device, sizes)
    recorders = []
    try:
        own["frame"].upload(frame)
        own["counts"].upload(contract.struct("Counts"))
        run = build_all(device, [*cull_passes(geometry, lens), SORT_PASSES[0]])
        whole = {**own, **model.all}
        recorders.append(sizes_of := Recorder(device, whole))
        sizes_of.run(run["sizes"], threads=(1,))
        sizes_of.end().run_once()
        recorders.append(cull := Recorder(device, {**own, **model_resources(model)}))
        record_cull(cull, run)
        cull.end()
        most = 0
        for camera in cameras:
            own["camera"].upload(camera)
            cull.run_once()
            most = max(most, int(own["counts"].download(contract.dtype("Counts"))[0]["wanted"]))
        return most
    finally:
        for recorder in recorders:
            recorder.destroy()
        for buffer in own.values():
            buffer.destroy()
