"""A working set: the splats of a model that one view may show, in buffers of their number.

    cull, scan, list: model -> working, counts.splats (ascending, one bit a splat in between)
    gather: values of all planes and statistics before the projection; moments before Adam
    put: values, moments and statistics of the planes that the step has moved

Only splats that a view may show are touched in planes of the host's memory. Between gather and put
the working set is all that the passes of a rasterizer know, in buffers of its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import undone
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.resources import Owned, allocate_all, destroy_all
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.raster.core.parameters import Parameters, plane_table
from hardsplat.raster.core.sort import BLOCK, SORT_PASSES
from hardsplat.tables import quantities

# What passes over a whole model bind instead of what the working set has under these names.
ON_MODEL = {name: f"model_{name}" for name in ("planes", "counts", "indirect")}
_TABLES = ("model_planes", "counts", "shown_bits", "shown_sums")
_MOVES = "working/moves.glsl"


def cull_passes(geometry: Sequence[str], lens: str) -> list[ComputePass]:
    """The model's planes of `geometry` -> working, counts.splats and counts.wanted. lens: the file
    that fills <lens>."""
    shown = ("shown_bits", "shown_sums")
    reads, slots = (*geometry, "camera", "frame", "counts"), {"lens": lens}
    cull = ComputePass("cull", "working/cull.comp", reads, shown, slots=slots, bind=ON_MODEL)
    reads = ("model_counts", "counts", "shown_sums")
    scan = ComputePass("cull scan", "working/scan.comp", reads, ("counts", "shown_sums"))
    listed = ComputePass("cull list", "working/list.comp", ("counts", *shown), ("working",))
    return [cull, scan, replace(listed, bind={"indirect": "model_indirect"})]


def _move(what: str, back: bool, slots: Mapping[str, str]) -> ComputePass:
    """what: values or moments."""
    name = f"put {what}" if back else f"gather {what}"
    names = quantities.values() if what == "values" else quantities.moments()
    reads = "frame" if what == "values" and not back else "rates"
    path, spec, bind = f"working/{what}.comp", {"BACK": back}, {"indirect": "model_indirect"}
    return ComputePass(name, path, (*_TABLES, reads, *names), names, spec, slots, bind=bind)


def working_passes(
    geometry: Sequence[str], lens: str, moments: str, statistics: Sequence[str]
) -> list[ComputePass]:
    """All that a step of Adam needs besides. geometry, lens: as of cull_passes. moments: the file
    that fills <moments>. statistics: of splats, buffers of the contract."""
    slots = {"moments": moments}
    return [
        *cull_passes(geometry, lens),
        _move("values", False, {}),
        _move("moments", False, slots),
        _move("values", True, {"moves": _MOVES}),
        _move("moments", True, slots),
        *(_statistics_pass(name, back) for name in statistics for back in (False, True)),
    ]


def _statistics_pass(name: str, back: bool) -> ComputePass:
    both, spec = ("followed", "moved"), {"BACK": back, "NUMBERS": contract.itemsize(name) // 4}
    title, bind = f"{'put' if back else 'gather'} {name}", {"followed": name}
    bind["moved"] = f"model_{name}"
    reads = ("counts", "working", *both)
    return ComputePass(title, "working/statistics.comp", reads, both, spec, bind=bind)


def record_cull(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """Model, camera -> working, counts.splats and counts.wanted."""
    recorder.run(run["cull"], indirect="splat_blocks")
    recorder.run(run["cull scan"], threads=(contract.CONSTANTS["GROUP"],))
    recorder.run(run["cull list"], indirect="splat_blocks")


def record_moves(recorder: Recorder, run: Mapping[str, Pipeline], back: bool, *what: str) -> None:
    """Moves values, moments or statistics of the working set: from the model, or back to it."""
    for name in what:
        whole = name in ("values", "moments")
        work = "splat_blocks" if whole else "splat_groups"
        recorder.run(run[f"{'put' if back else 'gather'} {name}"], indirect=work)


def model_resources(model: Parameters) -> dict[str, Buffer]:
    """What passes bind of the whole model."""
    return {f"model_{name}": buffer for name, buffer in model.resources.items()}


def _marks(model: Parameters) -> dict[str, int]:
    """Bytes of what the cull leaves, by buffer."""
    blocks = -(-max(model.capacity, 1) // BLOCK)
    return contract.nbytes({"shown_bits": blocks * BLOCK // 32, "shown_sums": blocks + 1})


class WorkingSet:
    """Room for `capacity` splats of a model, which a rasterizer draws instead of it.

    Photographs and cameras are the model's; a sky is not drawn. moments, statistics: as of
    Parameters. Raises OutOfMemory with nothing allocated.
    """

    def __init__(
        self,
        device: Device,
        model: Parameters,
        capacity: int,
        moments: str | None = None,
        statistics: Iterable[str] = (),
    ):
        self._parts, self.sh_degree = Owned(), model.sh_degree
        degree = model.sh_degree
        with undone(self._parts.destroy):
            splats = Parameters(device, capacity, degree, moments, "written", statistics=statistics)
            self.splats = self._parts.add(splats)
            sizes = {"working": capacity * contract.itemsize("working"), **_marks(model)}
            self._own = allocate_all(device, sizes)
        self._parts.add_all(self._own.values())
        planes = (*splats.of_splats(), *model.of_splats(others=True))
        table = plane_table({p.quantity.name: p for p in planes})
        splats.resources["planes"].upload(table)
        self.resources = {**self.splats.resources, **self._own, **model_resources(model)}

    @property
    def capacity(self) -> int:
        return self.splats.capacity

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
        whole = {**own, **model.resources}
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
        destroy_all(own)
