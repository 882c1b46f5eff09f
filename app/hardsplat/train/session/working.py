"""How many splats a step sees at most, which the working set of a session has room for."""

from __future__ import annotations

import numpy as np

from hardsplat.gpu.device.context import Device
from hardsplat.raster.core.frame import frame_data
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.projection import GEOMETRY
from hardsplat.raster.working_set import most_shown
from hardsplat.step.runner import BatchResult
from hardsplat.tables.photographs import LENSES
from hardsplat.train.job.job import Job

# Room: so many times what was seen, and so many splats more; it is made again below LEAST times.
# Where memory is short, the first that fits.
TIMES, MORE, LEAST = (1.5, 1.2, 1.0), 1024, 1.15


class ShownSplats:
    """What views show of a model, by the steps and measurements so far. share: of its splats, at
    most."""

    def __init__(self, job: Job):
        self._job, self.share, self._short = job, 0.0, 0

    def measure(self, device: Device, model: Parameters, n: int) -> None:
        """Culls the n splats of the model for every view."""
        job = self._job
        frame = frame_data(0, (0.0,) * 3, job.config.scene.near_plane)
        lens = LENSES[job.views.lens].slot
        most = most_shown(device, model, job.views.packed(), frame, GEOMETRY, lens)
        self.share = max(self.share, most / max(n, 1))

    def note(self, result: BatchResult) -> None:
        records = result.records
        shares = records["visible"] / np.maximum(records["splats"], 1)
        self.share = max(self.share, float(shares.max(initial=0.0)))

    def room(self, splats: int, capacity: int) -> int:
        """Splats to make a working set for, of a model with so many splats and that capacity."""
        return min(int(TIMES[self._short] * self.share * splats) + MORE, capacity)

    def is_short(self, room: int, splats: int, capacity: int) -> bool:
        """Whether to make more room than that for so many splats: steps may come to see more, or,
        where memory is short, one has."""
        least = min(LEAST, TIMES[self._short])
        return room < min(int(least * self.share * splats), capacity)

    def refuse(self) -> bool:
        """Notes that there was no memory for the last room; whether there may be for less."""
        self._short += 1
        return self._short < len(TIMES)
