"""Copies of a run's state in the host's memory, and files that are made of the newest:
checkpoints, splats, all that the last step leaves."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np
from tqdm import tqdm

from hardsplat.base.background import Background, outcome
from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.gpu.device.context import DeviceLost
from hardsplat.io.formats.checkpoint import Checkpoint, newest
from hardsplat.results.folder import resume_command
from hardsplat.step.runner import SNAPSHOT_SECONDS
from hardsplat.tables import quantities
from hardsplat.train.run.files import RunFiles
from hardsplat.train.session.session import Session
from hardsplat.train.session.store import Allocate, fresh
from hardsplat.train.watchers.log import Log

# bytes of memory that other programs must leave free, of large devices; share of small ones; s from
# one look to the next
LEAST, SHARE, SECONDS = 256 << 20, 0.05, 1.0


class HostCopies:
    """Memory of the host for two copies of a run's state: the last one stays whole while another is
    made. Systems take longer to hand out so much of it than the copy takes: a thread requests it
    ahead, and it is used again. background: copies larger than its room, in bytes, are not."""

    def __init__(self, background: Background):
        self._background, self._last = background, 0
        self._arrays: list[dict[str, np.ndarray]] = [{}, {}]  # flat, by name
        self._users: list[Future | None] = [None, None]  # files that are written of them
        self._ready: Future | None = None

    def prepare(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Has memory for the next copy made, of arrays of at most these shapes by name, unless it
        is there or being made."""
        arrays, sizes = self._arrays[1 - self._last], {n: math.prod(s) for n, s in shapes.items()}
        missing = {n: size for n, size in sizes.items() if n not in arrays or arrays[n].size < size}
        busy = not self._idle() or not (self._ready is None or self._ready.done())
        if missing and not busy and 4 * sum(sizes.values()) <= self._background.room:
            self._ready = self._background.do("memory", partial(_fill, arrays, missing))

    def begin(self) -> Allocate:
        """What gives the arrays of the next copy, with anything in them. The copy before the last
        one is lost, unless a file is being written of it."""
        if self._ready is not None:
            outcome(self._ready, "memory for a copy of the splats")
        if not self._idle():
            self._arrays[1 - self._last] = {}
        self._users[1 - self._last], arrays = None, self._arrays[1 - self._last]

        def allocate(name: str, shape: tuple[int, ...]) -> np.ndarray:
            size = math.prod(shape)
            if 4 * size > self._background.room:
                return fresh(name, shape)
            if name not in arrays or arrays[name].size < size:
                arrays[name] = np.empty(size, np.float32)
            return arrays[name][:size].reshape(shape)

        return allocate

    def made(self) -> None:
        """The copy that was begun is the last one now."""
        self._last = 1 - self._last

    def written_by(self, file: Future) -> None:
        """The last copy is in use until the file is done."""
        self._users[self._last] = file

    def _idle(self) -> bool:
        """Whether no file is being written of the copy before the last one."""
        user = self._users[1 - self._last]
        return user is None or user.done()


def _fill(arrays: dict[str, np.ndarray], sizes: Mapping[str, int]) -> None:
    with suppress(MemoryError):  # then there will be none when it is needed, or more by then
        arrays.update({name: np.full(size, 0, np.float32) for name, size in sizes.items()})


class Keeper:
    """The newest copy of a run's state that a lost device cannot take, and the files made of it.
    state: that the run begins with."""

    def __init__(self, session: Session, files: RunFiles, log: Log, state: Checkpoint):
        self.session, self.files, self.log = session, files, log
        self.state, self._taken_at = state, time.monotonic()
        self._copies = HostCopies(files.background)
        self._last_splats: Future | None = None  # while the run is measured after its last step
        self._chosen = False  # splats for the report
        device = session.device
        self._budget, self._looked, self._armed = device.memory_budget(), time.monotonic(), True
        self._least = int(min(LEAST, SHARE * device.memory_bytes))

    def begin_again(self, first: Checkpoint) -> None:
        """Takes the state at the first step for the newest, and drops checkpoints of what was
        trained before."""
        self.state, self._taken_at, self._chosen = first, time.monotonic(), False
        self.files.drop_checkpoints()

    def copy_state(self) -> None:
        self.state = self.session.snapshot(self._copies.begin())
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
            self.copy_state()
            splats = self.files.save_splats(self.planes(), "splats.ply")
            outcome(self.files.save_checkpoint(self.state), "the checkpoint")
            outcome(splats, "splats.ply")

    def publish(self) -> None:
        """The splats as PLY files, of which one stays."""
        session = self.session
        session.drain()
        with self.log.off_clock("files"):
            own = f"splats_{session.step}.ply"
            self.files.save_splats(session.store.values(), "splats.ply", own)

    def keep_state(self) -> None:
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
                self.copy_state()
                if checkpoint:
                    self._copies.written_by(self.files.save_checkpoint(self.state))
        self._copies.prepare(session.store.shapes())

    @contextmanager
    def last_files(self, measured: bool) -> Iterator[dict[str, np.ndarray]]:
        """Files of the last step from the host's copy of the state, of which the block gets the
        values of the model: it measures them on the device meanwhile, where they are `measured`."""
        session, files = self.session, self.files
        over = session.step == session.schedule.steps
        self.copy_state()  # before the device is given more to do
        planes = self.planes()
        files.begin_viewer(planes, measured)  # takes longest
        splats = files.save_splats(planes, "splats.ply", over=over)
        log: Future[dict] = Future()  # with the measurement, which the checkpoint ends with
        try:
            self._last_splats = splats
            files.save_last_checkpoint(self.state, log, over)
            yield planes
        finally:
            self._last_splats = None
            self.state.log = self.log.history()
            log.set_result(self.state.log)

    def planes(self) -> dict[str, np.ndarray]:
        """The trained values of the model in the newest copy of the state."""
        buffers = self.state.buffers
        return {name: buffers[name] for name in quantities.drawn() if name in buffers}

    def rescue(self, error: UserError) -> str:
        """Saves the newest state that can be had, and returns how to continue."""
        folder = self.files.folder
        if not isinstance(error, DeviceLost) and self.state.step != self.session.step:
            # the device may not be fit for a copy either; then the last one serves
            with suppress(UserError):
                self.copy_state()
        try:
            outcome(self.files.save_checkpoint(self.state), "the checkpoint")
        except UserError as unsaved:
            if (last := newest(folder)) is None:
                return str(unsaved)
            return f"{unsaved}; then continue from {last.name} with {resume_command(folder)}"
        cap = f" --cap-max {self.state.splats}" if isinstance(error, OutOfMemory) else ""
        return (
            f"step {self.state.step} with {self.state.splats:,} splats is saved: continue with "
            f"{resume_command(folder)}{cap}"
        )

    def choose_for_report(self) -> None:
        """Has the splats that the report shows chosen, once, before the last step: the end would
        wait for that."""
        session, files = self.session, self.files
        due = session.schedule.chosen_from <= session.step < session.schedule.steps
        # texels, which become splats too, still change
        if due and not self._chosen and files.job.part.reports and not files.job.items["texel"]:
            from hardsplat.report.run import CHOSEN_BY

            self._chosen = True
            session.drain()
            with self.log.off_clock("files"):
                files.choose_for_viewer(session.store.some(CHOSEN_BY))

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
            self.session.limit.close(f"other programs take the memory of {device.name}")
            self.save()
            tqdm.write(
                f"note: other programs take the memory of {device.name}, {budget.free >> 20} MiB "
                f"are left: step {self.session.step} is saved, and buffers no longer grow"
            )
