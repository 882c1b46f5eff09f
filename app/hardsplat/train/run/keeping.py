"""What a run saves and when: a copy of the state in the host's memory now and then, checkpoints,
splats, what the last step leaves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress

import numpy as np
from tqdm import tqdm

from hardsplat.base.background import outcome
from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.gpu.device.context import DeviceLost
from hardsplat.io.formats.checkpoint import Checkpoint, newest
from hardsplat.results.folder import resume_command
from hardsplat.step.runner import SNAPSHOT_SECONDS
from hardsplat.tables import quantities
from hardsplat.train.run.files import RunFiles
from hardsplat.train.session.copies import Allocate, HostCopies
from hardsplat.train.session.session import Session
from hardsplat.train.watchers.log import Log

# bytes of memory that other programs must leave free, of large devices; share of small ones; s from
# one look to the next
LEAST, SHARE, SECONDS = 256 << 20, 0.05, 1.0


class Keeper:
    """The newest copy of a run's state that a lost device cannot take, and the files made of it.
    state: that the run begins with."""

    def __init__(self, session: Session, files: RunFiles, log: Log, state: Checkpoint):
        self.session, self.files, self.log = session, files, log
        self.state, self._taken_at = state, time.monotonic()
        self._copies = HostCopies(files.background)
        self._last_splats: Future | None = None  # while the run is measured after its last step
        device = session.device
        self._budget, self._looked, self._armed = device.memory_budget(), time.monotonic(), True
        self._least = int(min(LEAST, SHARE * device.memory_bytes))

    def begin_again(self, first: Checkpoint) -> None:
        """Takes the state at the first step for the newest, and drops checkpoints of what was
        trained before."""
        self.state, self._taken_at = first, time.monotonic()
        self.files.drop_checkpoints()

    def take(self) -> None:
        """Copies the state of the session."""
        self._take(self._copies.begin())

    def _take(self, allocate: Allocate, values: Mapping[str, np.ndarray] | None = None) -> None:
        """values: the splats', where they have been copied already."""
        self.state = self.session.snapshot(allocate, values)
        self._copies.made()
        self.state.log, self._taken_at = self.log.history(), time.monotonic()

    def save(self) -> None:
        """A checkpoint and splats.ply, now. While the run is measured after its last step they are
        being written: splats.ply is waited for, the checkpoint appears after the measurement."""
        if self._last_splats:  # the checkpoint ends with the measurement that this is called from
            outcome(self._last_splats, "splats.ply")
            return
        self.session.drain()
        with self.log.off_clock("files"):
            self.take()
            splats = self.files.splats(self.planes(), "splats.ply", sky=self.session.store.sky())
            outcome(self.files.checkpoint(self.state), "the checkpoint")
            outcome(splats, "splats.ply")

    def publish(self) -> None:
        """The splats as PLY files, of which one stays."""
        session = self.session
        session.drain()
        with self.log.off_clock("files"):
            values, own = session.store.values(), f"splats_{session.step}.ply"
            self.files.splats(values, "splats.ply", own, sky=session.store.sky())

    def keep(self) -> None:
        """Checkpoints, and now and then a copy of the state in the host's memory: after a
        refinement, which a resumed run must not miss."""
        session = self.session
        step, every = session.step, session.job.config.run.checkpoint_every
        if step >= session.schedule.steps:
            return
        checkpoint = every and step % every == 0
        if checkpoint or time.monotonic() - self._taken_at > SNAPSHOT_SECONDS:
            session.drain()
            with self.log.off_clock("files"):
                self.take()
                if checkpoint:
                    self._copies.written_by(self.files.checkpoint(self.state))
        self._copies.prepare(session.store.shapes())

    @contextmanager
    def last(self, view: str | None) -> Iterator[dict[str, np.ndarray]]:
        """Files of the last step from the host's copy of the state, of which the block gets the
        values of splats: it measures them on the device meanwhile. view: with which the report's
        viewer begins."""
        session, files, allocate = self.session, self.files, self._copies.begin()
        planes, over = session.store.values(allocate), session.step == session.schedule.steps
        sky = session.store.fill_sky() if over else session.store.sky()
        self._take(allocate, planes)  # before the device is given more to do
        files.viewer(planes, view, sky)  # takes longest
        splats = files.splats(planes, "splats.ply", over=over, sky=sky)
        log: Future[dict] = Future()  # with the measurement, which the checkpoint ends with
        try:
            self._last_splats = splats
            files.last_checkpoint(self.state, log, over)
            yield planes
        finally:
            self._last_splats = None
            self.state.log = self.log.history()
            log.set_result(self.state.log)

    def planes(self) -> dict[str, np.ndarray]:
        """The trained values of splats in the newest copy of the state."""
        names = (name for name in quantities.values() if name in self.state.buffers)
        return {name: self.state.buffers[name] for name in names}

    def rescue(self, error: UserError) -> str:
        """Saves the newest state that can be had, and returns how to continue."""
        folder = self.files.folder
        if not isinstance(error, DeviceLost) and self.state.step != self.session.step:
            # the device may not be fit for a copy either; then the last one serves
            with suppress(UserError):
                self.take()
        try:
            outcome(self.files.checkpoint(self.state), "the checkpoint")
        except UserError as unsaved:
            if (last := newest(folder)) is None:
                return str(unsaved)
            return f"{unsaved}; then continue from {last.name} with {resume_command(folder)}"
        cap = f" --cap-max {self.state.splats}" if isinstance(error, OutOfMemory) else ""
        return (
            f"step {self.state.step} with {self.state.splats:,} splats is saved: continue with "
            f"{resume_command(folder)}{cap}"
        )

    def check_memory(self) -> None:
        """Before an allocation fails because other programs take the memory of the device: saves
        the run, ends the growth of its buffers and prints that, once until memory is free again."""
        if self._budget is None or time.monotonic() - self._looked < SECONDS:
            return
        device = self.session.device
        self._looked, budget = time.monotonic(), device.memory_budget()
        taken = self._budget.most - budget.most if budget else 0
        if budget is None or budget.free >= self._least or taken < self._least:
            self._armed = self._armed or (budget is not None and budget.free > 2 * self._least)
            return
        if self._armed:
            self._armed = False
            self.session.capacity.close(f"other programs take the memory of {device.name}")
            self.save()
            tqdm.write(
                f"note: other programs take the memory of {device.name}, {budget.free >> 20} MiB "
                f"are left: step {self.session.step} is saved, and buffers no longer grow"
            )
