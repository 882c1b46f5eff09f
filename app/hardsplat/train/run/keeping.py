"""What a run saves and when: a copy of the state in the host's memory now and then, checkpoints,
splats, what the last step leaves."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress

import numpy as np

from hardsplat.base.background import outcome
from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.gpu.device.context import DeviceLost
from hardsplat.io.formats.checkpoint import Checkpoint, newest
from hardsplat.tables import quantities
from hardsplat.train.run.measuring import Measurements
from hardsplat.train.run.resume import resume_command
from hardsplat.train.run.state import RunState
from hardsplat.train.session.copies import Allocate, SnapshotBuffers

SNAPSHOT_SECONDS = 60.0  # how much training a lost device may cost


class CheckpointKeeper:
    """The newest copy of a run's state that a lost device cannot take, and the files that the run
    makes. start: the state that it begins with."""

    def __init__(self, run: RunState, measurements: Measurements, start: Checkpoint):
        self.run, self.measurements = run, measurements
        self.state, self._taken_at = start, time.monotonic()
        self._copies = SnapshotBuffers(run.files.background)
        self._last_splats: Future | None = None  # while the run is measured after its last step

    def begin_again(self, first: Checkpoint) -> None:
        """Takes the state at the first step for the newest, and drops checkpoints of what was
        trained before."""
        self.state, self._taken_at = first, time.monotonic()
        self.run.files.drop_checkpoints()

    def take(self) -> None:
        """Copies the state of the session."""
        self._take(self._copies.begin())

    def _take(self, allocate: Allocate, values: Mapping[str, np.ndarray] | None = None) -> None:
        """values: the splats', where they have been copied already."""
        self.state = self.run.session.snapshot(allocate, values)
        self._copies.made()
        self.state.log, self._taken_at = self.run.log.history(), time.monotonic()

    def save(self) -> None:
        """A checkpoint and splats.ply, now. While the run is measured after its last step they are
        being written: splats.ply is waited for, the checkpoint appears after the measurement."""
        run = self.run
        if self._last_splats:  # the checkpoint ends with the measurement that this is called from
            outcome(self._last_splats, "splats.ply")
            return
        run.session.drain()
        with run.off_clock("files"):
            self.take()
            splats = run.files.splats(self.planes(), "splats.ply", sky=run.session.sky())
            outcome(run.files.checkpoint(self.state), "the checkpoint")
            outcome(splats, "splats.ply")

    def publish(self, step: int) -> None:
        """Measurements and splats for the user: before a refinement of the same step, which
        opacities and new splats take steps to recover from."""
        run, settings = self.run, self.run.job.config.run
        measure, ply = step in settings.eval_steps, step in settings.save_steps
        if step == run.session.schedule.steps or not (measure or ply):
            return
        run.session.drain()
        if measure:
            self.measurements.measure(step)
        if ply:
            with run.off_clock("files"):
                names = "splats.ply", f"splats_{step}.ply"
                run.files.splats(run.session.values(), *names, sky=run.session.sky())

    def keep(self, step: int) -> None:
        """Checkpoints, and now and then a copy of the state in the host's memory: after a
        refinement, which a resumed run must not miss."""
        run, every = self.run, self.run.job.config.run.checkpoint_every
        if step >= run.session.schedule.steps:
            return
        checkpoint = every and step % every == 0
        if checkpoint or time.monotonic() - self._taken_at > SNAPSHOT_SECONDS:
            run.session.drain()
            with run.off_clock("files"):
                self.take()
                if checkpoint:
                    self._copies.written_by(run.files.checkpoint(self.state))
        self._copies.prepare(run.session.shapes())

    def leave(self, step: int) -> None:
        """Everything that the run leaves after its last step: files from the host's copy of the
        state, while held-out views are measured on the device."""
        run, files, allocate = self.run, self.run.files, self._copies.begin()
        planes, over = run.session.values(allocate), step == run.session.schedule.steps
        first = next((run.scene.views[i].name for i in run.scene.test), None)
        sky = run.session.fill_sky() if over else run.session.sky()
        self._take(allocate, planes)  # before the device is given more to do
        files.viewer(planes, None if run.stop.asked else first, sky)  # takes longest
        splats = files.splats(planes, "splats.ply", over=over, sky=sky)
        log: Future[dict] = Future()  # with the measurement, which the checkpoint ends with
        try:
            self._last_splats = splats
            files.last_checkpoint(self.state, log, over)
            files.plots(run.metrics())
            self.measurements.measure(step, planes)
        finally:
            self._last_splats = None
            self.state.log = run.log.history()
            log.set_result(self.state.log)
        files.learnt(self.state, self.measurements.refined)

    def planes(self) -> dict[str, np.ndarray]:
        """The trained values of splats in the newest copy of the state."""
        names = (name for name in quantities.values() if name in self.state.buffers)
        return {name: self.state.buffers[name] for name in names}

    def rescue(self, error: UserError) -> str:
        """Saves the newest state that can be had, and returns how to continue."""
        if not isinstance(error, DeviceLost) and self.state.step != self.run.session.step:
            # the device may not be fit for a copy either; then the last one serves
            with suppress(UserError):
                self.take()
        try:
            outcome(self.run.files.checkpoint(self.state), "the checkpoint")
        except UserError as unsaved:
            if (last := newest(self.run.folder)) is None:
                return str(unsaved)
            again = resume_command(self.run.folder)
            return f"{unsaved}; then continue from {last.name} with {again}"
        cap = f" --cap-max {self.state.splats}" if isinstance(error, OutOfMemory) else ""
        return (
            f"step {self.state.step} with {self.state.splats} splats is saved: continue with "
            f"{resume_command(self.run.folder)}{cap}"
        )
