"""What a session trains, as arrays and as a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.model.gaussians import Gaussians
from hardsplat.model.sky import Sky
from hardsplat.raster.core.parameters import Parameters
from hardsplat.step.runner import StepRunner
from hardsplat.tables import quantities
from hardsplat.tables.quantity import Of
from hardsplat.train.job.job import Job
from hardsplat.train.session.copies import Allocate, fresh


def of_other_items(
    checkpoint: Checkpoint, items: Mapping[Of, int], settings: Mapping[str, Any]
) -> set[str]:
    """Names of arrays of a checkpoint that are of other photographs or cameras than `items` has,
    and rest in this run. settings: all by name.

    Raises UserError where they are trained.
    """
    found: set[str] = set()
    for q in (q for kind in quantities.ORDER[1:] for q in quantities.of(kind)):
        there = checkpoint.buffers[q.name].shape[1] if q.name in checkpoint.buffers else items[q.of]
        if there == items[q.of]:
            continue
        if there and quantities.is_chosen(q, settings):
            raise UserError(
                f"the checkpoint knows {there} {q.of}s, the scene has {items[q.of]}: "
                "train on the photographs that it was made with"
            )
        found |= {q.name, q.moments}
    return found


class SessionContents:
    """The part of a session that reads what it trains.

    job: see Job. parameters: from the first splats on.
    """

    job: Job
    parameters: Parameters
    runner: StepRunner
    _shared: dict[str, Buffer | Image]

    @property
    def step(self) -> int:
        """Steps that were queued."""
        return self.runner.step

    def drain(self) -> None:
        """Waits for all batches in flight."""
        self.runner.drain()

    @property
    def capacity(self) -> int:
        """Splats that there is room for."""
        return self.parameters.capacity

    def snapshot(
        self, allocate: Allocate = fresh, known: Mapping[str, np.ndarray] | None = None
    ) -> Checkpoint:
        """Everything that a resume needs, after the batches in flight. allocate: gives the arrays.
        known: what `values` gave after the same steps."""
        n, known = self.count(), known or {}
        arrays = {
            name: known[name] if name in known else self._read(name, n, allocate)
            for name in self._kept()
        }
        return Checkpoint(self.step, self.job.config.model.sh_degree, arrays)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays of a snapshot with as many splats as the capacity."""
        return {name: self._shape(name, self.capacity) for name in self._kept()}

    def _shape(self, name: str, n: int) -> tuple[int, ...]:
        """Of an array of a snapshot of n splats."""
        return self.parameters.shape(name, self.parameters.items(name, n))

    def _kept(self) -> list[str]:
        splats = quantities.of("splat")
        others = [q for kind in quantities.ORDER[1:] for q in quantities.of(kind)]
        names = [
            *(q.name for q in splats),
            *(q.moments for q in splats),
            *(name for q in others for name in (q.name, q.moments)),
        ]
        averages = [q.average for q in splats] if self.parameters.averaged else ()
        return [*names, *averages, *self.job.strategy.follows]

    def _read(self, name: str, n: int, allocate: Allocate) -> np.ndarray:
        out = allocate(name, self._shape(name, n))
        return self.parameters.read(name, self.parameters.items(name, n), out)

    def count(self) -> int:
        """Splats alive, after all that was queued."""
        self.drain()
        return int(self.parameters.counts["splats"])

    def values(self, allocate: Allocate = fresh) -> dict[str, np.ndarray]:
        """(planes, splats, width) of every trained quantity of splats, by name. allocate: gives the
        arrays."""
        n = self.count()
        splats = quantities.of("splat")
        return {q.name: self._read(q.name, n, allocate) for q in splats}

    def trained_of(self, name: str) -> np.ndarray:
        """(planes, items, width) of a quantity of photographs, cameras or texels, after all that
        was queued."""
        self.drain()
        return self.parameters.read(name, self.job.views.items[quantities.QUANTITIES[name].of])

    def sky(self) -> Sky | None:
        """The sky after all that was queued, where there is one."""
        return Sky(self.trained_of("sky")[0]) if self.job.views.texels else None

    def fill_sky(self) -> Sky | None:
        """Gives directions that no photograph saw the colours around them. Returns the sky."""
        if (sky := self.sky()) is None:
            return None
        self.parameters.write("sky", (sky := sky.filled()).texels[None])
        return sky

    def gaussians(self) -> Gaussians:
        self.drain()
        return self.parameters.download()
