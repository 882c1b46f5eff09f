"""What a session trains, as arrays and as a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import buffer_in
from hardsplat.io.formats.checkpoint import RESIDUALS, Checkpoint
from hardsplat.model.gaussians import Gaussians
from hardsplat.model.lobes import DEGREE, has_lobes, without_lobes
from hardsplat.model.sky import Sky
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.harmonics import fit_harmonics, fit_opacities
from hardsplat.tables import quantities
from hardsplat.tables.quantity import Of
from hardsplat.train.job.job import Job
from hardsplat.train.session.copies import Allocate, fresh
from hardsplat.train.step.batch import BatchedSession
from hardsplat.train.step.transient import cells_in

log = logging.getLogger("hardsplat")


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


class SessionContents(BatchedSession):
    """The part of a session that reads what it trains.

    job: see Job. step: steps that were queued. parameters: from the first splats on.
    """

    job: Job
    parameters: Parameters
    step: int
    _shared: dict[str, Buffer | Image]

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
        if name == RESIDUALS:
            return 1, len(self.job.views.cameras), cells_in(self.job.views.canvas)
        return self.parameters.shape(name, self.parameters.items(name, n))

    def _kept(self) -> list[str]:
        splats = quantities.of_splats(self.job.further)
        others = [q for kind in quantities.ORDER[1:] for q in quantities.of(kind)]
        names = [
            *(q.name for q in splats),
            *(q.moments for q in splats),
            *(name for q in others for name in (q.name, q.moments)),
        ]
        averages = [q.average for q in splats] if self.parameters.averaged else ()
        residuals = [RESIDUALS] if RESIDUALS in self._shared else []
        return [*names, *averages, *self.job.strategy.follows, *residuals]

    def _read(self, name: str, n: int, allocate: Allocate) -> np.ndarray:
        out = allocate(name, self._shape(name, n))
        if name != RESIDUALS:
            return self.parameters.read(name, self.parameters.items(name, n), out)
        buffer_in(self._shared, name).copy_to(out)
        return out

    def _follow_residuals(self, residuals: np.ndarray | None) -> None:
        """Continues with these residuals of a checkpoint, or without where they are of other
        photographs."""
        if RESIDUALS not in self._shared:
            return
        buffer = buffer_in(self._shared, RESIDUALS)
        buffer.fill(0)
        if residuals is not None and residuals.shape == self._shape(RESIDUALS, 0):
            buffer.upload(residuals)

    def count(self) -> int:
        """Splats alive, after all that was queued."""
        self.drain()
        return int(self.parameters.counts["splats"])

    def values(self, allocate: Allocate = fresh) -> dict[str, np.ndarray]:
        """(planes, splats, width) of every trained quantity of splats, by name. allocate: gives the
        arrays."""
        n = self.count()
        splats = quantities.of_splats(self.job.further)
        return {q.name: self._read(q.name, n, allocate) for q in splats}

    def harmonics(self, sh_degree: int = DEGREE) -> np.ndarray | None:
        """(splats, (sh_degree + 1)^2, 3) SH that look like splats with lobes of colour, after all
        that was queued; None where they have none."""
        if not has_lobes(self.job.further):
            return None
        n, cameras = self.count(), self.job.views.cameras
        try:
            return fit_harmonics(self.parameters, n, cameras, sh_degree)
        except OutOfMemory:
            return without_lobes(self.gaussians(), cameras, sh_degree=sh_degree).sh

    def plain_opacities(self) -> np.ndarray | None:
        """(splats,) opacities with which programs without the 2D filter draw antialiased splats
        most alike, after all that was queued; their own where there is no memory to find them; None
        where splats are not antialiased."""
        if not self.job.config.raster.filtered:
            return None
        n, cameras = self.count(), self.job.views.cameras
        try:
            return fit_opacities(self.parameters, n, cameras)
        except OutOfMemory:
            bold = "programs without the 2D filter will draw splats too bold"
            log.warning("no memory to find other opacities: %s", bold)
            return self.gaussians().opacities

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
