"""The buffers of a session and the commands recorded with them: growth replaces both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import OutOfMemory
from hardsplat.contract.footprint import by_purpose
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.raster.backends import BACKENDS
from hardsplat.raster.core.parameters import Gradients, Parameters
from hardsplat.raster.core.rasterizer import Rasterizer
from hardsplat.step.photos import Photos
from hardsplat.step.runner import PairDemand
from hardsplat.train.job.schedule import Schedule
from hardsplat.train.session.capacity import SplatCapacity
from hardsplat.train.session.contents import SessionContents
from hardsplat.train.session.drawing import Drawing, StepInputs, has_timed_rows
from hardsplat.train.session.working import ShownSplats
from hardsplat.train.step.capture import PhotographPasses


class SessionBuffers(SessionContents):
    """The part of a session that has buffers and commands.

    rasterizer: draws the splats by now. room: how many splats fit. timed_rows: see
    `switch_rasterizer`. bound: most splats there can be, known without waiting.
    """

    device: Device
    schedule: Schedule
    rasterizer: str
    capture: PhotographPasses
    photos: Photos
    room: SplatCapacity
    bound: int
    timed_rows: bool
    _shown: ShownSplats
    pairs: PairDemand
    _shared: dict[str, Buffer | Image]
    _drawing: Drawing | None

    def terms(self, capacity: int = 0) -> np.ndarray:
        """The contract's LossTerms struct. capacity: of splats."""
        raise NotImplementedError

    def switch_rasterizer(self, rasterizer: str, timed_rows: bool = True) -> None:
        """Draws with another rasterizer from the next step on. timed_rows: of its rows left to
        `auto` those that were timed, not the first that run.

        Raises UserError where it does not run or fit here; the session then needs another switch.
        """
        drawn_so = timed_rows == self.timed_rows or not self.has_timed_rows(rasterizer)
        if rasterizer == self.rasterizer and drawn_so and self._drawing:
            return
        n = self.count()
        self._release(keep_parameters=True)
        self.rasterizer, self.timed_rows = rasterizer, timed_rows
        self.pairs.use(rasterizer)
        self._draw()
        self._set(n, self.step)

    def raster_without_filter(self, others: Parameters | None = None) -> Rasterizer:
        """Draws the splats of now, or others, as other programs do, without the 2D filter; it is
        the caller's. Raises OutOfMemory."""
        job, backend = self.job, BACKENDS[self.rasterizer]
        options = backend.first_runnable(self.device, job.options(self.rasterizer))
        drawn = self._drawing.working if self._drawing and not others else None
        sink = job.sink(self.capture.depths is not None) if drawn else None  # which gathers them
        how = *job.views.canvas, replace(options, antialiased=False), sink
        return backend.rasterizer(self.device, others or drawn or self.parameters, *how)

    def has_timed_rows(self, rasterizer: str) -> bool:
        """Whether a switch to that rasterizer would look for the fastest rows."""
        return has_timed_rows(self.device, self.job, rasterizer)

    def _allocate(self, n: int) -> None:
        """Parameter buffers with room to grow."""
        self._release()
        job, capacity = self.job, self.room.first(n, self.rasterizer)
        gradients: Gradients = "others" if job.packed else "written"
        self.parameters = Parameters(
            self.device,
            capacity,
            job.config.model.sh_degree,
            job.moments,
            "none" if job.estimates else gradients,
            job.views.items,
            job.strategy.follows,
            out_of_core=job.out_of_core,
        )

    def _grow(self, wanted: int, n: int) -> None:
        """Room for `wanted` splats where there are n, or as many as fit; growth is cut there and
        the run continues."""
        before = self.parameters.capacity
        capacity = self.room.more(wanted, before, self.rasterizer)
        if capacity == before:
            return
        self._release(keep_parameters=True)
        try:
            self.parameters.resize(capacity, n)
            self._draw()
        except OutOfMemory as error:
            self.room.refuse(capacity, before, error)
            self._release(keep_parameters=True)
            self.parameters.resize(before, n)
            self._draw()
        self._set(n, self.step)

    def _fit_lists(self) -> None:
        self.pairs.fit(self.raster)
        if self._drawn.outdated:  # an evaluation may have made room too
            self.drain()
            self._drawn.record(self._inputs())

    def _fit_working(self) -> None:
        """Makes room for what the next steps may see, as far as there is memory."""
        working, n = self._drawn.working, self.bound
        if working and self._shown.is_short(working.capacity, n, self.capacity):
            self.drain()
            self._release(keep_parameters=True)
            self._draw()
            self._set(self.count(), self.step)
            self.bound = n

    def _draw(self) -> None:
        """Rasterizer and commands for the room that there is."""
        while True:
            shared, inputs = self._shared, self._inputs()
            try:
                how = (self.parameters, shared, self.runner, self.pairs)
                self._drawing = Drawing(inputs, *how)
                return
            except OutOfMemory:
                if not self.job.packed or not self._shown.refuse():
                    raise

    def _inputs(self) -> StepInputs:
        return StepInputs(
            self.device,
            self.job,
            self.schedule,
            self.rasterizer,
            self.capture,
            self.photos,
            self.terms(self.parameters.capacity),
            self.timed_rows,
            self._shown.room(self.bound, self.parameters.capacity),
        )

    @property
    def _drawn(self) -> Drawing:
        assert self._drawing is not None, "a session draws from start() or restore() on"
        return self._drawing

    @property
    def raster(self) -> Rasterizer:
        """Draws the splats. Another one after growth and `switch_rasterizer`."""
        return self._drawn.raster

    @property
    def resources(self) -> dict[str, Buffer | Image]:
        """Everything on the device, by contract name."""
        return self._drawn.resources

    def _set(self, n: int, step: int) -> None:
        """Number of splats and step, and what the GPU derives from the first: a densification may
        come before any step does it."""
        self.parameters.set_count(n)
        frame = contract.struct("Frame", step=step, seed=self.job.config.run.seed)
        self.resources["frame"].upload(frame)
        self._drawn.sizes.run_once()
        self.runner.step, self.bound = step, n

    def _release(self, keep_parameters: bool = False) -> None:
        self.device.wait_idle()  # for refinements too, which have no fence
        self._free(keep_parameters)

    def _free(self, keep_parameters: bool = False) -> None:
        """Frees what depends on the number of splats. No work may be under way."""
        if self._drawing:
            self._drawing.destroy()
            self._drawing = None
        if hasattr(self, "parameters") and not keep_parameters:
            self.parameters.destroy()
            del self.parameters

    def destroy(self) -> None:
        """Frees everything, the photographs too. On a lost device nothing is under way."""
        if hasattr(self, "runner"):
            self.runner.destroy()
        self.device.settle()
        self._free()
        for resource in self._shared.values():
            resource.destroy()

    def memory(self) -> dict[str, int]:
        """Bytes on the device by purpose."""
        own = {n: r for n, r in self.resources.items() if not (isinstance(r, Buffer) and r.host)}
        sizes = {n: r.nbytes for n, r in own.items()} | self.parameters.nbytes()
        for name, size in (
            self._drawn.working.splats.nbytes().items() if self._drawn.working else ()
        ):
            sizes[name] = sizes.get(name, 0) + size
        return by_purpose(sizes)
