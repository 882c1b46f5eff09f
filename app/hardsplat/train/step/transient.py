"""What moves in photographs: cells of pixels whose colours stay wrong in one photograph are left
out of the loss.

RobustNeRF (Sabour et al. 2023) trims the largest residuals of a batch by their quantile, smooths
and votes in patches; SpotLessSplats (Sabour et al. 2024) follows residuals over the training. Here
a residual is the mean difference over 4 x 4 and over 12 x 12 pixels, with its sign, so that fine
detail which is not learned yet cancels out of it. What other photographs teach about an ignored
cell makes its residual small again, and the cell counts again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.resources import allocate_all
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.io.formats.checkpoint import RESIDUALS
from hardsplat.train.step.exposure import seen_by

# The limit of a residual: so many times the 75 % quantile of its photograph, and at least so much.
FAR, LEAST = 6.0, 0.06
CELL = contract.CONSTANTS["CELL"]
BINS = contract.CONSTANTS["RESIDUAL_BINS"]
_FOLDER, _SETTINGS = "photographs/transient", "transient_settings"
_JUDGED = ("camera", "frame", _SETTINGS)


def cells_of(width: int, height: int) -> tuple[int, int]:
    """Cells in a row, and rows of cells."""
    return -(-width // CELL), -(-height // CELL)


def cells_in(canvas: tuple[int, int]) -> int:
    """Cells of a canvas, width and height, px."""
    across, down = cells_of(*canvas)
    return across * down


def since(steps: int) -> int:
    """The step from which residuals are followed, in a run of so many: colours and growth have
    settled by then, and nothing that moves has been learned for good."""
    return min(steps // 4, 2_000)


def transient_passes(
    photo_bytes: int, exposure: str = "none", cameras: int = 2
) -> tuple[ComputePass, ...]:
    """What judges the photograph of a step before its loss. Arguments as of loss_passes."""
    seen = seen_by(exposure, cameras)
    compared = ("target", "photos", *_JUDGED, *seen.reads)
    counts, spec = "residual_counts", {"PHOTO_BYTES": photo_bytes, **seen.spec}
    differences, follow, vote = (f"{_FOLDER}/{n}.comp" for n in ("differences", "follow", "vote"))
    both, found = (RESIDUALS, counts), ("cell_differences", counts)
    return (
        ComputePass("transient differences", differences, compared, found, spec, seen.slots),
        ComputePass("transient follow", follow, (*_JUDGED, *found, RESIDUALS), both),
        ComputePass(
            "transient vote", vote, (*_JUDGED, *both), (RESIDUALS,), {"FAR": FAR, "LEAST": LEAST}
        ),
    )


def ignoring(p: ComputePass) -> ComputePass:
    """A pass that reads the photograph of the step, without the cells that move."""
    if "photos" not in p.reads:
        return p
    slots = {**p.slots, "ignores": f"{_FOLDER}/ignores.glsl"}
    return replace(p, slots=slots, reads=(*p.reads, _SETTINGS, RESIDUALS))


def record_transient(
    recorder: Recorder, run: Mapping[str, Pipeline], width: int, height: int
) -> None:
    """target, photos, residuals -> residuals, whose signs tell what the loss ignores."""
    cells = cells_of(width, height)
    for name in ("differences", "follow", "vote"):
        recorder.run(run[f"transient {name}"], threads=cells)


def transient_settings(steps: int, canvas: tuple[int, int]) -> np.ndarray:
    """The contract's TransientSettings of a run of so many steps."""
    return contract.struct("TransientSettings", since=since(steps), cells=cells_in(canvas))


def allocate_transient(device: Device, canvas: tuple[int, int], views: int) -> dict[str, Buffer]:
    """Buffers of the passes but for their settings; nothing is known of any photograph."""
    cells = cells_in(canvas)
    sizes = {"cell_differences": cells, RESIDUALS: views * cells}
    found = allocate_all(device, contract.nbytes({**sizes, "residual_counts": BINS}))
    found[RESIDUALS].fill(0)
    return found


def ignored_share(residuals: np.ndarray) -> float:
    """Share of the cells that were judged which the loss ignores."""
    return float((residuals < 0).sum() / max(np.count_nonzero(residuals), 1))


def ignored_pixels(residuals: np.ndarray, width: int, height: int) -> np.ndarray:
    """(height, width) bool: what the loss ignores of a photograph, of its row of `residuals`."""
    across, down = cells_of(width, height)
    cells = residuals[: across * down].reshape(down, across) < 0
    return cells.repeat(CELL, axis=0).repeat(CELL, axis=1)[:height, :width]
