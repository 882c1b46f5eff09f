"""What a run leaves in its folder and when, made by threads while it trains: photographs, renders,
splats, checkpoints, the report; metrics.json last, when all else is there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from tqdm import tqdm

from hardsplat.base.background import Background, outcome
from hardsplat.base.clock import PhaseClock
from hardsplat.base.errors import OutOfMemory, UserError, reason
from hardsplat.base.files import sync_later, write_json
from hardsplat.gpu.device.context import DeviceLost
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.formats.checkpoint import Checkpoint, newest
from hardsplat.io.media.images import over, save_png, to_uint8
from hardsplat.model.camera import Camera
from hardsplat.results.folder import resume_command
from hardsplat.results.pictures import comparison_name, some_of
from hardsplat.step.runner import SNAPSHOT_SECONDS
from hardsplat.tables import quantities
from hardsplat.tables.pictures import BACKGROUNDS
from hardsplat.train.features import save_found
from hardsplat.train.features.feature import Found
from hardsplat.train.job.job import Job
from hardsplat.train.measure.measure import Measured
from hardsplat.train.run.photographs import PhotographLoader
from hardsplat.train.session.session import Session
from hardsplat.train.session.store import Allocate, fresh
from hardsplat.train.watchers.log import Log

if TYPE_CHECKING:
    from hardsplat.page.choose import Choice
    from hardsplat.page.export import PageScene

T = TypeVar("T")
REPORT = "report.html"
LATE = 1 << 25  # bytes of splats from which a finished run has them synced after its end


class RunFiles:
    """The files of a run. All but `finish` and `drop_checkpoints` return at once."""

    def __init__(self, folder: Path, session: Session, photographs: PhotographLoader):
        self.folder, self.photographs, self._session = folder, photographs, session
        self.scene, self.background = photographs.scene, photographs.background
        self._photos_saved = self._late = False  # late: large files are synced after the end
        self._prepared = False
        # the report's viewer, and the render that it begins with
        self._viewer: Future[str | None] | None = None
        self._choice: Future[Choice | None] | None = None  # of its splats
        self._first: Future[Future[np.ndarray] | None] = Future()
        self._stopped = False
        self._unsynced: tuple[Path, ...] = ()  # what a finished run has left to be synced
        # held-out views that the report shows, renders of them, which threads make, and photographs
        self._some = some_of([self.scene.views[i].name for i in self.scene.test])
        self._shown: dict[str, tuple[Future[np.ndarray], np.ndarray]] = {}

    @property
    def job(self) -> Job:
        return self._session.job

    def begin(self) -> None:
        """Makes what can be made before the first step: the held-out photographs as pictures."""
        self._photos_saved = self.photographs.each_held_out(self._save_photo)

    def _save_photo(self, name: str, photo: np.ndarray) -> None:
        background = BACKGROUNDS[self.job.config.scene.background]
        save_png(self._path(name, "photo"), over(photo, background))

    def _path(self, name: str, part: str) -> Path:
        return self.folder / "renders" / comparison_name(name, part)

    # -- on the way --------------------------------------------------------------------------------

    def comparison(self, m: Measured) -> None:
        """The render of a held-out view and its photograph; some are kept for the report."""
        assert m.target is not None

        def work() -> np.ndarray:
            image = m.image
            assert image is not None
            render = to_uint8(image)
            save_png(self._path(m.name, "render"), render)
            if not self._photos_saved:
                save_png(self._path(m.name, "photo"), m.photo)
            return render

        render = self.background.do("renders", work, m.target.nbytes + m.source.nbytes)
        if m.name in self._some:
            self._shown[m.name] = render, m.photo

    def splats(self, planes: Mapping[str, np.ndarray], *names: str, over: bool = False) -> Future:
        """A model from its trained values, (planes, items, width) by name, as PLY files of these
        names. over: see last_checkpoint."""
        nbytes, views = _bytes_of(planes), self.job.views
        self._late = over and nbytes > LATE

        def work() -> None:
            from hardsplat.io.model import save_model

            durable, antialiased = not self._late, self.job.config.raster.antialiased
            cameras, extent = views.cameras, views.extent
            save_model(self.folder, names, planes, cameras, extent, antialiased, durable)

        return self.background.do("splats", work, nbytes, line="splats")

    def all_splats(self, planes: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """The trained values of all splats of these files."""
        from hardsplat.io.model import all_splats

        return all_splats(planes, self.job.views.cameras, self.job.views.extent)

    def checkpoint(self, state: Checkpoint) -> Future:
        """A checkpoint; older ones go, but for those of --save-steps."""
        work, nbytes = partial(self._checkpoint, state), _bytes_of(state.buffers)
        return self.background.do("checkpoint", work, nbytes, line="checkpoint")

    def drop_checkpoints(self) -> None:
        """Deletes all checkpoints, after those that are being written."""
        work = partial(checkpoints.prune, self.folder, (), 0)
        outcome(self.background.do("checkpoints", work, line="checkpoint"), "the checkpoints")

    def last_checkpoint(self, state: Checkpoint, log: Future[dict], over: bool) -> None:
        """The checkpoint after the last step, written while held-out views are measured. log: its
        log, which is known after that.

        over: the run is, and the command waits for its files. Large ones are then synced to the
        disk after its end, see sync_later; the checkpoint before this one, which stays, is synced.
        """
        # its memory is taken anyhow, and nothing may wait for it
        work = partial(self._checkpoint, state, log, durable=not over)
        self.background.do("checkpoint", work, line="checkpoint")

    def _checkpoint(
        self, state: Checkpoint, log: Future[dict] | None = None, durable: bool = True
    ) -> None:
        checkpoints.save(checkpoints.path_of(self.folder, state.step), state, durable, log)
        checkpoints.prune(self.folder, self.job.config.run.save_steps)

    def learnt(self, state: Checkpoint, held_out: Sequence[Camera]) -> None:
        """What was found of photographs, where anything was. held_out: refined cameras of the
        held-out views, if there are any."""
        found = Found(self.folder, self.job, self.scene, state.buffers, held_out)
        self.background.do("learnt", partial(save_found, found))

    def prepare(self) -> None:
        """Has what draws the report imported, once: it takes half a second."""
        if not self._prepared and self.job.part.reports:
            self._prepared = True
            self.background.do("report", _prepare, line="report")

    def choose(self, planes: Mapping[str, np.ndarray]) -> None:
        """Has the splats of the report's viewer chosen ahead, by trained values of CHOSEN_BY."""

        def work() -> Choice | None:
            from hardsplat.report.run import viewer_choice

            with suppress(Exception):  # what fails here does so again at the end, which says it
                return viewer_choice(planes, self._page_scene())
            return None

        self._choice = self.background.do("viewer", work, _bytes_of(planes), line="viewer")

    def _page_scene(self, measured: bool = True) -> PageScene:
        from hardsplat.report.run import shown_of

        c, held_out = self.job.config, self.scene.held_out
        first = held_out[0].name if measured and held_out else None
        return shown_of(self.scene, c.scene, c.raster.antialiased, first)

    def viewer(self, planes: Mapping[str, np.ndarray], measured: bool) -> None:
        """The report's viewer of a model from its trained values. It is made while held-out views
        are `measured`, and begins at the first of them."""

        def work() -> str | None:
            from hardsplat.report.run import viewer_of

            shown = self._page_scene(measured)
            chosen = self._choice.result() if self._choice else None
            everything = self.all_splats(planes)
            return viewer_of(everything, shown, self._first_render, chosen, self._check)

        if self.job.part.reports:
            guarded = partial(_guarded, work, "the report has no view in 3D")
            self._viewer = self.background.do("viewer", guarded, line="viewer")

    def _first_render(self) -> np.ndarray | None:
        render = self._first.result()
        return render.result() if render else None

    def _check(self) -> None:
        if self._stopped:
            raise UserError("the run was stopped")

    def end_viewer(self) -> None:
        """Has the report do without its viewer, unless that is nearly there: somebody wants the run
        to end."""
        self._stopped = True
        self.picture(None)

    def picture(self, name: str | None) -> None:
        """What the viewer begins with: the render of that view, where it is one of those that were
        shown."""
        if not self._first.done():
            self._first.set_result(self._shown[name][0] if name in self._shown else None)

    # -- at the end --------------------------------------------------------------------------------

    def report(self, metrics: dict, clock: PhaseClock) -> None:
        """Begins with the report and its curves. metrics: as `finish` will be given them."""
        metrics["seconds"]["parts"] = clock.read()
        self.picture(None)
        if self.job.part.reports:
            work = partial(self._write_report, metrics)
            lost = f"{self.folder / REPORT} is not written"
            self.background.do("report", partial(_guarded, work, lost), line="report")

    def finish(self, metrics: dict, clock: PhaseClock, turn: Callable[[], object]) -> dict:
        """Waits for all that was started, then writes metrics.json with the seconds of all phases
        and of what was waited for, and returns it. turn: see Background.finish. Raises UserError
        for a file that cannot be written; of a report a note says so."""
        metrics["seconds"]["files"] = self.background.finish(self.job.config.run.quiet, turn)
        metrics["seconds"]["parts"] = clock.read()
        path = self.folder / "metrics.json"
        write_json(path, metrics, durable=not self._late)
        if self._late:
            last = checkpoints.path_of(self.folder, metrics["steps"])
            self._unsynced = self.folder / "splats.ply", path, self.folder, last, last.parent
        return metrics

    def sync(self) -> None:
        """Has what is not on the disk yet written there by a process that outlives this one: last
        of all, since the file system makes others wait meanwhile."""
        if self._unsynced:
            sync_later(*self._unsynced)
            self._unsynced = ()

    def _write_report(self, metrics: dict) -> None:
        from hardsplat.report.run import write_report

        shown = {name: (render.result(), photo) for name, (render, photo) in self._shown.items()}
        viewer = self._viewer
        # curves and pictures are made meanwhile
        write_report(self.folder, metrics, shown, lambda: viewer.result() if viewer else None)

    def close(self) -> None:
        """Drops what was not started, and the viewer."""
        self.end_viewer()
        self.background.close()


def _bytes_of(arrays: Mapping[str, np.ndarray]) -> int:
    return sum(values.nbytes for values in arrays.values())


def _prepare() -> None:
    from hardsplat.report.run import prepare

    with suppress(Exception):  # what fails here does so again at the end, which says it
        prepare()


def _guarded(work: Callable[[], T], lost: str) -> T | None:
    """The result of work that belongs to the report. Where it fails, a note says what is lost."""
    try:
        return work()
    except Exception as error:  # any at all: nothing that was trained depends on the report
        tqdm.write(f"note: {lost}: {reason(error)}")
        return None


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

    def take(self) -> None:
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
            self.take()
            splats = self.files.splats(self.planes(), "splats.ply")
            outcome(self.files.checkpoint(self.state), "the checkpoint")
            outcome(splats, "splats.ply")

    def publish(self) -> None:
        """The splats as PLY files, of which one stays."""
        session = self.session
        session.drain()
        with self.log.off_clock("files"):
            own = f"splats_{session.step}.ply"
            self.files.splats(session.store.values(), "splats.ply", own)

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
    def last(self, measured: bool) -> Iterator[dict[str, np.ndarray]]:
        """Files of the last step from the host's copy of the state, of which the block gets the
        values of the model: it measures them on the device meanwhile, where they are `measured`."""
        session, files = self.session, self.files
        over = session.step == session.schedule.steps
        self.take()  # before the device is given more to do
        planes = self.planes()
        files.viewer(planes, measured)  # takes longest
        splats = files.splats(planes, "splats.ply", over=over)
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
        """The trained values of the model in the newest copy of the state."""
        buffers = self.state.buffers
        return {name: buffers[name] for name in quantities.drawn() if name in buffers}

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

    def choose(self) -> None:
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
                files.choose(session.store.some(CHOSEN_BY))

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
